// Runs of 64 steps, and those together: what keeps sums accurate.
fn $NAME(first: u32, steps: u32, stride: u32, less: V) -> V {
    var total = V(0.0);
    var at = 0u;
    while (at < steps) {
        var run = V(0.0);
        let last = min(steps, at + 64u);
        while (at < last) {
            let x = V(input[first + at * stride]);
            run += $TERM;
            at++;
        }
        total += run;
    }
    return total;
}

