//! Memory of a GPU: what goes up comes back, unused buffers are kept within bounds, and nothing leaks.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    dead_code,
    reason = "helpers shared by several test programs; clippy exempts only functions marked as tests"
)]

mod shared;

use shared::{alone, devices};
use trimtab_wgpu::{MAX_POOLED_BUFFERS, MAX_POOLED_BYTES, TransferPath};

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at.wrapping_mul(2_654_435_761) >> 11) as u8).collect()
}

#[test]
fn what_goes_up_comes_back_on_every_path_and_at_every_size() {
    let _alone = alone();
    for device in devices(&[]) {
        let paths = device.transfer_paths();
        assert!(paths.contains(&TransferPath::Staged));
        for bytes in [1, 2, 3, 4, 5, 255, 256, 4097, 1 << 20, (8 << 20) - 1, 8 << 20, (24 << 20) + 3] {
            let data = pattern(bytes);
            let buffer = device.allocate(bytes as u64).unwrap();
            for &up in paths {
                for &down in paths {
                    device.write_by(up, &buffer, &vec![0; bytes]).unwrap();
                    device.write_by(up, &buffer, &data).unwrap();
                    let mut back = vec![0; bytes];
                    device.download_by(down, &buffer, &mut back).unwrap();
                    assert!(back == data, "{bytes} bytes {up:?} {down:?}");
                }
            }
        }
    }
}

#[test]
fn a_buffer_larger_than_one_binding_goes_up_and_comes_back() {
    let _alone = alone();
    for device in devices(&[]) {
        let told = device.facts().adapter.clone().unwrap();
        let bytes = 256 << 20;
        if told.max_buffer.0 < bytes {
            continue;
        }
        let data = pattern(bytes as usize);
        let mut back = vec![0; data.len()];
        for &path in device.transfer_paths() {
            let buffer = device.allocate(bytes).unwrap();
            device.write_by(path, &buffer, &data).unwrap();
            back.fill(0);
            device.download_by(path, &buffer, &mut back).unwrap();
            assert!(back == data, "{path:?}");
        }
    }
}

#[test]
fn more_than_the_largest_buffer_is_refused_with_the_numbers_and_the_device_works_on() {
    let _alone = alone();
    for device in devices(&[]) {
        let largest = device.facts().adapter.as_ref().unwrap().max_buffer.0;
        let error = device.allocate(largest + 1).unwrap_err().to_string();
        assert!(error.contains(&(largest + 1).to_string()), "{error}");
        assert!(device.allocate(u64::MAX).is_err());
        let small = device.allocate(8).unwrap();
        assert!(device.write(&small, &[1; 9]).unwrap_err().to_string().contains("9 bytes"));
        assert!(device.download(&small, &mut [1; 9]).is_err());
        device.write(&small, &[7; 8]).unwrap();
        let mut back = [0; 8];
        device.download(&small, &mut back).unwrap();
        assert_eq!(back, [7; 8]);
    }
}

#[test]
fn unused_buffers_are_kept_within_bounds() {
    let _alone = alone();
    for device in devices(&[]) {
        let before = device.memory();
        let many: Vec<_> = (0..MAX_POOLED_BUFFERS + 50).map(|_| device.allocate(64).unwrap()).collect();
        assert_eq!(device.memory().live_buffers, before.live_buffers + many.len() as u64);
        drop(many);
        let after = device.memory();
        assert_eq!(after.live_buffers, before.live_buffers);
        assert_eq!(after.pooled_buffers, MAX_POOLED_BUFFERS as u64);
        // Not written, so that pages are never touched.
        let large: Vec<_> = (0..6).map(|_| device.allocate(100 << 20).unwrap()).collect();
        drop(large);
        let after = device.memory();
        assert!(after.pooled_bytes <= MAX_POOLED_BYTES, "{after:?}");
        assert_eq!((after.live_buffers, after.live_bytes), (before.live_buffers, before.live_bytes));
    }
}

#[test]
fn ten_thousand_buffers_taken_and_given_back_leak_nothing() {
    let _alone = alone();
    let resident = || -> u64 {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        statm.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0) * 4096
    };
    for device in devices(&[]) {
        let cycle = |number: usize| {
            let buffer = device.upload(&[number as u8; 1000]).unwrap();
            let other = device.allocate(1 + (number as u64 * 7919) % 300_000).unwrap();
            let mut back = [0; 1000];
            device.download(&buffer, &mut back).unwrap();
            assert_eq!(back[999], number as u8);
            drop(other);
        };
        (0..10_000).for_each(cycle);
        let (before, resident_before) = (device.memory(), resident());
        (0..10_000).for_each(cycle);
        let (after, grown) = (device.memory(), resident().saturating_sub(resident_before));
        assert_eq!((before.live_bytes, before.live_buffers), (after.live_bytes, after.live_buffers));
        assert_eq!(before.pooled_buffers, after.pooled_buffers);
        assert_eq!(before.created, after.created, "the second round meets the buffers of the first");
        assert!(grown < 16 << 20, "{grown} bytes more are resident");
    }
}
