// Folds the elements first, first + by, first + 2 by … before last of the axis that begins at base.
// Runs of 64 steps, 64 of those together, and the rest: a sum of 2^24 elements passes three short chains and not a long
// one, so its rounding stays that of a sum in pairs.
fn walk(base: u32, stride: u32, first: u32, last: u32, by: u32) -> Many {
    var total = empty_many();
    var at = first;
    let far = by * $UNROLL;
    while (at < last) {
        var middle = empty_many();
        let middle_last = min(last, at + 4096u * far);
        while (at < middle_last) {
            let run_last = min(middle_last, at + 64u * far);
$BEGIN
            while (at + ($UNROLL - 1u) * by < run_last) {
$STEP
                at += far;
            }
            while (at < run_last) {
                run_0 = fetch(run_0, base, at, stride);
                at += by;
            }
$END
        }
        total = merge_many(total, middle);
    }
    return total;
}
