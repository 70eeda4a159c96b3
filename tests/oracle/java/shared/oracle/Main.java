package oracle;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.apache.xbean.asm9.ClassReader;
import org.apache.xbean.asm9.ClassVisitor;
import org.apache.xbean.asm9.ClassWriter;
import org.apache.xbean.asm9.MethodVisitor;
import org.apache.xbean.asm9.Opcodes;

/** Starts a driver with a virtual clock: two classes of the name server get another clock while they are loaded. */
public final class Main {

    private static final Set<String> ON_VIRTUAL_TIME = Set.of(
        "org.apache.rocketmq.namesrv.routeinfo.RouteInfoManager",
        "org.apache.rocketmq.namesrv.processor.DefaultRequestProcessor");

    private Main() {
    }

    public static void main(String[] args) throws Exception {
        ClassLoader loader = new RewritingLoader(classpath());
        Thread.currentThread().setContextClassLoader(loader);
        String driver = args.length > 0 ? args[0] : "oracle.Driver";
        loader.loadClass(driver).getMethod("main", String[].class).invoke(null, (Object) args);
    }

    private static URL[] classpath() throws IOException {
        List<URL> urls = new ArrayList<>();
        for (String entry : System.getProperty("java.class.path").split(System.getProperty("path.separator"))) {
            urls.add(Path.of(entry).toUri().toURL());
        }
        return urls.toArray(new URL[0]);
    }

    /** Loads the whole class path anew, beside the application's loader, so that every class passes through here. */
    private static final class RewritingLoader extends URLClassLoader {

        RewritingLoader(URL[] classpath) {
            super(classpath, ClassLoader.getPlatformClassLoader());
        }

        @Override
        protected Class<?> findClass(String name) throws ClassNotFoundException {
            if (!ON_VIRTUAL_TIME.contains(name)) {
                return super.findClass(name);
            }
            try (InputStream in = getResourceAsStream(name.replace('.', '/') + ".class")) {
                byte[] rewritten = onVirtualTime(in.readAllBytes());
                return defineClass(name, rewritten, 0, rewritten.length);
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }

        /** Replaces System.currentTimeMillis by VClock.currentTimeMillis; every other instruction stays. */
        private static byte[] onVirtualTime(byte[] released) {
            ClassWriter writer = new ClassWriter(0);
            new ClassReader(released).accept(new ClassVisitor(Opcodes.ASM9, writer) {
                @Override
                public MethodVisitor visitMethod(int access, String name, String type, String generic, String[] thrown) {
                    return new MethodVisitor(Opcodes.ASM9, super.visitMethod(access, name, type, generic, thrown)) {
                        @Override
                        public void visitMethodInsn(int code, String owner, String name, String type, boolean iface) {
                            boolean clock = owner.equals("java/lang/System") && name.equals("currentTimeMillis");
                            super.visitMethodInsn(code, clock ? "oracle/VClock" : owner, name, type, iface);
                        }
                    };
                }
            }, 0);
            return writer.toByteArray();
        }
    }
}
