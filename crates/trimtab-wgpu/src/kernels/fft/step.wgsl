fn step$RADIX(invocation: u32, here: u32, there: u32, rest: u32, done: u32) {
    let log = firstTrailingBit(rest);
    let groups = rest / $RADIXu;
    for (var id = invocation; id < LINES * LEN / $RADIXu; id += WIDTH) {
        let line = id / (LEN / $RADIXu) * LEN;
        let butterfly = id % (LEN / $RADIXu);
        let group = butterfly / done;
        let alike = butterfly % done;
        var v: array<vec2<f32>, $RADIX>;
        for (var nth = 0u; nth < $RADIXu; nth++) {
            v[nth] = numbers[here + line + alike + done * (group + groups * nth)];
        }
        v = transform$RADIX(v);
        for (var nth = 0u; nth < $RADIXu; nth++) {
            numbers[there + line + alike + done * ($RADIXu * group + nth)] = times(v[nth], turn(group * nth, log));
        }
    }
}
