//! The name of a kernel's settings, as wisdom keeps it: what is read is written as a name that means the same.
#![no_main]

use trimtab::advanced::core::{Point, Space};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let name = trimtab_fuzz::text(data);
    let axes = ["kc", "mc", "threads"];
    for count in 0..=axes.len() {
        let legal = vec![Point::new(&[1, 2, 3][..count])];
        let space = Space::new(axes[..count].iter().map(|&axis| axis.into()).collect(), legal);
        let Some(point) = space.read(name) else { continue };
        assert_eq!(space.read(&space.name(&point)), Some(point), "{name}");
        assert_eq!(space.find(name).is_some(), space.points().contains(&point), "{name}");
    }
});
