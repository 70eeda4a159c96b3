. /tmp/live/env.sh
for s in 168 189 191 223 227 x232 221 225 224 220 222 226 186 177 181 197 x230 x231 x233 x234; do
 [ -e /tmp/live/stop2 ] && break
 [ -d /tmp/live/rec/$s ] || continue
 stem=host; [ -e /tmp/live/rec/$s/host.pcap ] || stem=capture
 nice -n 5 python -W ignore /tmp/live/tools/again.py /tmp/live/rec/$s 0 $stem 2>&1 | grep -v "^verify" | cut -c1-900 > /tmp/live/again-$s.out
done
