package oracle;

import io.netty.channel.AbstractChannel;
import io.netty.channel.ChannelConfig;
import io.netty.channel.ChannelFuture;
import io.netty.channel.ChannelMetadata;
import io.netty.channel.ChannelOutboundBuffer;
import io.netty.channel.DefaultChannelConfig;
import io.netty.channel.DefaultChannelPromise;
import io.netty.channel.EventLoop;
import io.netty.util.concurrent.ImmediateEventExecutor;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.util.List;

/** A channel that has an identity and a remote address, and notes that it was closed instead of closing. */
public final class FakeChannel extends AbstractChannel {

    private final String channelId;
    private final SocketAddress remote;
    private final List<Object> closed;

    FakeChannel(String channelId, String remote, List<Object> closed) {
        super(null);
        this.channelId = channelId;
        int colon = remote == null ? -1 : remote.lastIndexOf(':');
        this.remote = colon < 0 ? null : InetSocketAddress.createUnresolved(
            remote.substring(0, colon), Integer.parseInt(remote.substring(colon + 1)));
        this.closed = closed;
    }

    /** Returns the id by which events name a channel. */
    public static String idOf(Object channel) {
        return channel == null ? null : ((FakeChannel) channel).channelId;
    }

    @Override
    public ChannelFuture close() {
        closed.add(channelId);
        return new DefaultChannelPromise(this, ImmediateEventExecutor.INSTANCE).setSuccess();
    }

    @Override
    public SocketAddress remoteAddress() {
        return remote;
    }

    @Override
    protected AbstractUnsafe newUnsafe() {
        return new AbstractUnsafe() {
            @Override
            public void connect(SocketAddress to, SocketAddress from, io.netty.channel.ChannelPromise promise) {
                throw new UnsupportedOperationException();
            }
        };
    }

    @Override
    protected boolean isCompatible(EventLoop loop) {
        return true;
    }

    @Override
    protected SocketAddress localAddress0() {
        return null;
    }

    @Override
    protected SocketAddress remoteAddress0() {
        return remote;
    }

    @Override
    protected void doBind(SocketAddress address) {
        throw new UnsupportedOperationException();
    }

    @Override
    protected void doDisconnect() {
        throw new UnsupportedOperationException();
    }

    @Override
    protected void doClose() {
        throw new UnsupportedOperationException();
    }

    @Override
    protected void doBeginRead() {
        throw new UnsupportedOperationException();
    }

    @Override
    protected void doWrite(ChannelOutboundBuffer buffer) {
        throw new UnsupportedOperationException();
    }

    @Override
    public ChannelConfig config() {
        return new DefaultChannelConfig(this);
    }

    @Override
    public boolean isOpen() {
        return true;
    }

    @Override
    public boolean isActive() {
        return true;
    }

    @Override
    public ChannelMetadata metadata() {
        return new ChannelMetadata(false);
    }
}
