//! Choosing among closures: the fastest way to sort, by how much there is to sort.
//!
//! `cargo run --release -p trimtab-examples --bin choose`

use trimtab::{Error, Runtime};

/// Counts how often each byte occurs, byte by byte from the lowest: four passes, whatever the order.
fn radix_sort(mut numbers: Vec<u32>) -> Vec<u32> {
    let mut sorted = vec![0; numbers.len()];
    for shift in [0, 8, 16, 24] {
        let byte = |number: u32| (number >> shift) as usize & 255;
        let mut starts = [0usize; 257];
        numbers.iter().for_each(|&number| starts[byte(number) + 1] += 1);
        (0..256).for_each(|value| starts[value + 1] += starts[value]);
        for &number in &numbers {
            sorted[starts[byte(number)]] = number;
            starts[byte(number)] += 1;
        }
        std::mem::swap(&mut numbers, &mut sorted);
    }
    numbers
}

fn main() -> Result<(), Error> {
    let rt = Runtime::new()?;
    let sort = rt
        .choose::<Vec<u32>, Vec<u32>>("sort")
        .option("stable", |mut numbers| {
            numbers.sort();
            numbers
        })
        .option("unstable", |mut numbers| {
            numbers.sort_unstable();
            numbers
        })
        .option("radix", radix_sort)
        .agree(|a, b| a == b) // who gives something else than the first is never chosen
        .version("1") // change it when a closure changes
        .build()?;
    for count in [16u64, 1_000, 100_000] {
        let numbers: Vec<u32> = (0..count as u32).map(|index| index.wrapping_mul(2_654_435_761)).collect();
        // The sizes you give tell problems apart; the first call of each races the options on clones of its input.
        let sorted = sort.run(&[count], numbers)?;
        println!(
            "{count}: sorted {}, by {}",
            sorted.is_sorted(),
            sort.chosen(&[count])?.unwrap_or("calls to come")
        );
    }
    Ok(())
}
