//! Tensor cores: products of small matrices that a warp holds together, and how it loads them.

use super::access::Access;
use super::shadow::Use;
use super::warp::Warp;
use super::{LANES, Machine, Stop};
use crate::number::{Half, Rounding, f32_of, of_f32, tf32};
use crate::op::{Factor, Fragment, Mma, Tile, Together};
use crate::operand::Origin;
use crate::scalar::{Scalar, Space};
use std::collections::BTreeSet;

/// Rows and columns of the largest matrix.
const MOST: usize = 16;
type Matrix = [[f64; MOST]; MOST];

/// The parts of `d = a · b + c`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MmaPart {
    A,
    B,
    Sum,
}

impl Machine<'_> {
    pub(super) fn tensor(&mut self, warp: &mut Warp, pc: u32, what: &Together) -> Result<(), Stop> {
        match what {
            Together::Mma(mma) => {
                self.counters.tensor_multiply_adds += (mma.m * mma.n * mma.k) as u64;
                self.multiply(warp, mma);
                Ok(())
            }
            Together::TileLoad(tile) => self.tile_load(warp, pc, tile),
            Together::TileStore(tile) => self.tile_store(warp, pc, tile),
            Together::MatrixLoad { .. } => self.matrix_load(warp, pc, what),
            _ => Ok(()),
        }
    }

    fn multiply(&mut self, warp: &mut Warp, mma: &Mma) {
        let (mut a, mut b, mut c) = ([[0.0; MOST]; MOST], [[0.0; MOST]; MOST], [[0.0; MOST]; MOST]);
        let values = |sources: &[u32]| {
            sources.iter().map(|source| warp.registers[*source as usize]).collect::<Vec<_>>()
        };
        gather(mma, MmaPart::A, &values(&mma.a), &mut a);
        gather(mma, MmaPart::B, &values(&mma.b), &mut b);
        let sums: Vec<_> = mma.c.iter().map(|source| self.values(warp, *source)).collect();
        gather(mma, MmaPart::Sum, &sums, &mut c);
        // Rounded once. Hardware rounds in steps, and differently on each generation.
        for (row, c) in c.iter_mut().enumerate().take(mma.m) {
            for (column, sum) in c.iter_mut().enumerate().take(mma.n) {
                *sum += (0..mma.k).map(|k| a[row][k] * b[k][column]).sum::<f64>();
            }
        }
        let count = mma.m * mma.n / LANES;
        for lane in 0..LANES {
            for at in 0..count {
                let (row, column) = place(mma, MmaPart::Sum, lane, at);
                let value = c[row][column];
                if mma.wide {
                    warp.registers[mma.d[at] as usize][lane] = of_f32(value as f32);
                } else {
                    let half = Half::F16.bits(value, Rounding::Nearest) << (16 * (at % 2));
                    let register = &mut warp.registers[mma.d[at / 2] as usize][lane];
                    *register = if at % 2 == 0 { half } else { *register & 0xffff | half };
                }
            }
        }
    }

    /// A tile in registers is up to the machine; here lanes hold elements row after row.
    fn tile_load(&mut self, warp: &mut Warp, pc: u32, tile: &Tile) -> Result<(), Stop> {
        let count = tile.rows * tile.columns / LANES;
        let addresses = self.tile_addresses(warp, tile);
        for lane in 0..LANES {
            let mut elements = Vec::with_capacity(count);
            for address in &addresses[lane * count..(lane + 1) * count] {
                let access = Access {
                    lane,
                    pc,
                    space: tile.space,
                    address: *address,
                    bytes: bytes(tile),
                    how: Use::Read,
                };
                let data = self.read(warp, &access)?;
                elements.push(u64::from(u32::from_le_bytes([data[0], data[1], data[2], data[3]])));
            }
            for (at, register) in tile.registers.iter().enumerate() {
                let Origin::Register(register) = register else { continue };
                let value = match bytes(tile) {
                    2 => {
                        let pair = 2 * at % count;
                        elements[pair] & 0xffff | (elements[pair + 1] & 0xffff) << 16
                    }
                    _ => elements[at],
                };
                warp.registers[*register as usize][lane] = value;
            }
        }
        Ok(())
    }

    fn tile_store(&mut self, warp: &mut Warp, pc: u32, tile: &Tile) -> Result<(), Stop> {
        let count = tile.rows * tile.columns / LANES;
        let addresses = self.tile_addresses(warp, tile);
        let values: Vec<_> = tile.registers.iter().map(|source| self.values(warp, *source)).collect();
        for lane in 0..LANES {
            for at in 0..count {
                let address = addresses[lane * count + at];
                let access =
                    Access { lane, pc, space: tile.space, address, bytes: bytes(tile), how: Use::Write };
                let value =
                    if bytes(tile) == 2 { values[at / 2][lane] >> (16 * (at % 2)) } else { values[at][lane] };
                self.write(warp, &access, &value.to_le_bytes()[..bytes(tile)])?;
            }
        }
        Ok(())
    }

    /// The address of each element, row after row; all are counted as one request.
    fn tile_addresses(&mut self, warp: &Warp, tile: &Tile) -> Vec<u64> {
        let base = self.addresses(warp, &tile.address)[0];
        let stride = self.values(warp, tile.stride)[0] & 0xffff_ffff;
        let size = bytes(tile) as u64;
        let address = |row: u64, column: u64| {
            let element = if tile.row_major { row * stride + column } else { column * stride + row };
            base.wrapping_add(element * size)
        };
        let (rows, columns) = (tile.rows as u64, tile.columns as u64);
        let all: Vec<u64> =
            (0..rows).flat_map(|row| (0..columns).map(move |column| address(row, column))).collect();
        let space = if tile.space == Space::Generic { super::compute::window(base) } else { tile.space };
        if space == Space::Global {
            let sectors: BTreeSet<u64> = all.iter().map(|address| address / 32).collect();
            self.counters.global_requests += 1;
            self.counters.global_sectors += sectors.len() as u64;
            self.counters.global_bytes += rows * columns * size;
        }
        all
    }

    fn matrix_load(&mut self, warp: &mut Warp, pc: u32, what: &Together) -> Result<(), Stop> {
        let Together::MatrixLoad { space, dsts, transposed, address } = what else { return Ok(()) };
        let rows = self.addresses(warp, address);
        let used = if dsts.len() == 4 { u32::MAX } else { (1 << (8 * dsts.len())) - 1 };
        self.count(*space, used, &rows, 16);
        for (matrix, dst) in dsts.iter().enumerate() {
            let mut elements = [[0u16; 8]; 8];
            for (row, elements) in elements.iter_mut().enumerate() {
                let lane = 8 * matrix + row;
                let access =
                    Access { lane, pc, space: *space, address: rows[lane], bytes: 16, how: Use::Read };
                let data = self.read(warp, &access)?;
                for (element, pair) in elements.iter_mut().zip(data.chunks_exact(2)) {
                    *element = u16::from_le_bytes([pair[0], pair[1]]);
                }
            }
            for lane in 0..LANES {
                let (major, minor) = (lane / 4, 2 * (lane % 4));
                let element = |at: usize| match transposed {
                    true => elements[minor + at][major],
                    false => elements[major][minor + at],
                };
                warp.registers[*dst as usize][lane] = u64::from(element(0)) | u64::from(element(1)) << 16;
            }
        }
        Ok(())
    }
}

fn bytes(tile: &Tile) -> usize {
    if tile.scalar == Scalar::Tf32 { 4 } else { tile.scalar.bytes() }
}

/// The matrix that registers of a warp hold.
fn gather(mma: &Mma, part: MmaPart, registers: &[super::Lanes], matrix: &mut Matrix) {
    let elements = match part {
        MmaPart::A => mma.m * mma.k,
        MmaPart::B => mma.k * mma.n,
        MmaPart::Sum => mma.m * mma.n,
    };
    for element in 0..elements {
        let (lane, at) = (element % LANES, element / LANES);
        let pair = |at: usize| registers[at / 2][lane] >> (16 * (at % 2));
        let value = match (part, mma.factor) {
            (MmaPart::Sum, _) if mma.wide => f32_of(registers[at][lane]),
            (MmaPart::Sum, _) | (_, Factor::F16) => Half::F16.value(pair(at)),
            (_, Factor::Bf16) => Half::Bf16.value(pair(at)),
            (_, Factor::Tf32) => tf32(registers[at][lane]),
        };
        let (row, column) = place(mma, part, lane, at);
        matrix[row][column] = f64::from(value);
    }
}

/// Row and column of the element a lane holds at this place.
fn place(mma: &Mma, part: MmaPart, lane: usize, at: usize) -> (usize, usize) {
    if mma.fragment == Fragment::Opaque {
        let columns = if part == MmaPart::A { mma.k } else { mma.n };
        let rows = if part == MmaPart::B { mma.k } else { mma.m };
        let element = lane * (rows * columns / LANES) + at;
        return (element / columns, element % columns);
    }
    let (group, within) = (lane / 4, lane % 4);
    match (part, mma.factor) {
        (MmaPart::Sum, _) => (group + 8 * (at / 2), 2 * within + at % 2),
        (MmaPart::A, Factor::Tf32) => (group + 8 * (at % 2), within + 4 * (at / 2)),
        (MmaPart::B, Factor::Tf32) => (within + 4 * at, group),
        (MmaPart::A, _) => (group + 8 * (at / 2 % 2), 2 * within + at % 2 + 8 * (at / 4)),
        (MmaPart::B, _) => (2 * within + at % 2 + 8 * (at / 2), group),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_has_exactly_one_place() {
        for (m, n, k, factor, fragment) in [
            (16, 8, 8, Factor::F16, Fragment::Documented),
            (16, 8, 16, Factor::Bf16, Fragment::Documented),
            (16, 8, 4, Factor::Tf32, Fragment::Documented),
            (16, 8, 8, Factor::Tf32, Fragment::Documented),
            (16, 16, 16, Factor::F16, Fragment::Opaque),
            (16, 16, 8, Factor::Tf32, Fragment::Opaque),
        ] {
            let mma =
                Mma { m, n, k, factor, fragment, wide: true, d: vec![], a: vec![], b: vec![], c: vec![] };
            for (part, rows, columns) in [(MmaPart::A, m, k), (MmaPart::B, k, n), (MmaPart::Sum, m, n)] {
                let places: BTreeSet<(usize, usize)> = (0..LANES)
                    .flat_map(|lane| (0..rows * columns / LANES).map(move |at| (lane, at)))
                    .map(|(lane, at)| place(&mma, part, lane, at))
                    .collect();
                assert_eq!(places.len(), rows * columns, "{factor:?} {m} {n} {k}");
                assert!(places.iter().all(|(row, column)| *row < rows && *column < columns));
            }
        }
    }
}
