//! The legal points of a space, indexed for searching: digits per axis, and any point found in constant time.

use super::exact_math;
use trimtab_core::{MAX_AXES, Space};

/// Marks an empty place of the table.
const NOBODY: u32 = u32::MAX;

/// One axis: its name and the values legal points take, ascending.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchAxis {
    /// The name.
    pub name: String,
    /// The values, ascending.
    pub values: Vec<u32>,
    /// Each value as a coordinate between zero and one, in doublings: 16, 32 and 64 lie equally far apart.
    pub coordinates: Vec<f64>,
}

/// Legal points as positions of values on their axes. A point is known by its position in the [`Space`].
///
/// Takes two bytes a value and about eight a point: 10⁶ points of ten axes take 28 MB.
#[derive(Clone, Debug)]
pub struct SearchSpace {
    axes: Vec<SearchAxis>,
    digits: Vec<u16>,
    table: Vec<u32>,
    len: usize,
}

impl SearchSpace {
    /// Indexes a space. Points beyond 2^32 - 1, and axes of more than 65,536 values, are not searched.
    pub fn new(space: &Space) -> SearchSpace {
        let points = space.points();
        let mut axes: Vec<SearchAxis> = Vec::with_capacity(space.axes().len());
        for (axis, name) in space.axes().iter().enumerate() {
            let mut values: Vec<u32> = Vec::new();
            let mut last = None;
            for point in points {
                let value = point.values()[axis];
                // Neighbouring points mostly share the value: look it up only when it changes.
                if last != Some(value) {
                    last = Some(value);
                    if let Err(at) = values.binary_search(&value) {
                        values.insert(at, value);
                    }
                }
            }
            let coordinates = coordinates(&values);
            axes.push(SearchAxis { name: name.to_string(), values, coordinates });
        }
        let searched = axes.iter().all(|axis| axis.values.len() <= usize::from(u16::MAX) + 1);
        let len = if searched { points.len().min(NOBODY as usize) } else { 0 };
        let mut digits = Vec::with_capacity(len * axes.len());
        for point in &points[..len] {
            for (axis, value) in axes.iter().zip(point.values()) {
                // Every value is there: the axes were made of these points.
                digits.push(axis.values.binary_search(value).unwrap_or(0) as u16);
            }
        }
        let mut built = SearchSpace { axes, digits, table: vec![NOBODY; (len * 2).next_power_of_two()], len };
        for at in 0..len {
            let mut place = built.place(built.digits(at));
            while built.table[place] != NOBODY {
                place = (place + 1) & (built.table.len() - 1);
            }
            built.table[place] = at as u32;
        }
        built
    }

    /// How many points there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The axes.
    pub fn axes(&self) -> &[SearchAxis] {
        &self.axes
    }

    /// A point as positions on the axes.
    pub fn digits(&self, at: usize) -> &[u16] {
        let width = self.axes.len();
        &self.digits[at * width..(at + 1) * width]
    }

    fn place(&self, digits: &[u16]) -> usize {
        let mut hash = 0xcbf2_9ce4_8422_2325u64;
        for &digit in digits {
            hash = (hash ^ u64::from(digit)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            hash ^= hash >> 29;
        }
        hash as usize & (self.table.len() - 1)
    }

    /// The legal point of these digits.
    pub fn find(&self, digits: &[u16]) -> Option<usize> {
        let mut place = self.place(digits);
        loop {
            match self.table[place] {
                NOBODY => return None,
                at if self.digits(at as usize) == digits => return Some(at as usize),
                _ => place = (place + 1) & (self.table.len() - 1),
            }
        }
    }

    /// Adds every legal point that differs in one axis.
    pub fn neighbours(&self, at: usize, found: &mut Vec<usize>) {
        let mut digits = self.copy(at);
        let width = self.axes.len();
        for axis in 0..width {
            let own = digits[axis];
            for other in 0..self.axes[axis].values.len() as u32 {
                if other != u32::from(own) {
                    digits[axis] = other as u16;
                    found.extend(self.find(&digits[..width]));
                }
            }
            digits[axis] = own;
        }
    }

    fn copy(&self, at: usize) -> [u16; MAX_AXES] {
        let mut digits = [0; MAX_AXES];
        digits[..self.axes.len()].copy_from_slice(self.digits(at));
        digits
    }

    /// How far apart two points are: the sum over the axes, each from zero to one.
    pub fn distance(&self, one: usize, other: usize) -> f64 {
        let digits = self.digits(one).iter().zip(self.digits(other));
        let apart = |((a, b), axis): ((&u16, &u16), &SearchAxis)| {
            (axis.coordinates[usize::from(*a)] - axis.coordinates[usize::from(*b)]).abs()
        };
        digits.zip(&self.axes).map(apart).sum()
    }

    /// The legal point of these named values, or the nearest: fewest axes that differ, then least far. Axes the donor does
    /// not have are free; names the space does not have are ignored. Absent if no name is an axis here.
    pub fn nearest(&self, named: &[(&str, u32)]) -> Option<usize> {
        let wanted: Vec<Option<(Option<u16>, f64)>> = self
            .axes
            .iter()
            .map(|axis| {
                let value = named.iter().find(|(name, _)| *name == axis.name)?.1;
                let digit = axis.values.binary_search(&value).ok().map(|digit| digit as u16);
                Some((digit, coordinate_of(&axis.values, value)))
            })
            .collect();
        if wanted.iter().all(Option::is_none) {
            return None;
        }
        if wanted.iter().all(|axis| axis.is_some_and(|(digit, _)| digit.is_some())) {
            let digits: Vec<u16> =
                wanted.iter().filter_map(|axis| axis.and_then(|(digit, _)| digit)).collect();
            if let Some(at) = self.find(&digits) {
                return Some(at);
            }
        }
        let distance = |at: usize| {
            let mut differing = 0u32;
            let mut far = 0.0;
            for ((wanted, axis), digit) in wanted.iter().zip(&self.axes).zip(self.digits(at)) {
                if let Some((exact, coordinate)) = wanted {
                    differing += u32::from(*exact != Some(*digit));
                    far += (axis.coordinates[usize::from(*digit)] - coordinate).abs();
                }
            }
            (differing, far)
        };
        (0..self.len)
            .map(|at| (distance(at), at))
            .min_by(|a, b| a.0.0.cmp(&b.0.0).then(a.0.1.total_cmp(&b.0.1)).then(a.1.cmp(&b.1)))
            .map(|(_, at)| at)
    }
}

/// Values on a scale of doublings from zero to one. A zero counts as half of one, one doubling below one.
fn coordinates(values: &[u32]) -> Vec<f64> {
    values.iter().map(|&value| coordinate_of(values, value)).collect()
}

fn coordinate_of(values: &[u32], value: u32) -> f64 {
    let doublings = |value: u32| exact_math::log2(if value == 0 { 0.5 } else { f64::from(value) });
    match (values.first(), values.last()) {
        (Some(&first), Some(&last)) if first < last => {
            (doublings(value) - doublings(first)) / (doublings(last) - doublings(first))
        }
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trimtab_core::Point;

    /// x in 1..=4, y in 1..=4, x + y even.
    fn checkers() -> SearchSpace {
        let points = (1..=4).flat_map(|x| (1..=4).map(move |y| (x, y)));
        let points = points.filter(|(x, y)| (x + y) % 2 == 0).map(|(x, y)| Point::new(&[x, y])).collect();
        SearchSpace::new(&Space::new(vec!["x".into(), "y".into()], points))
    }

    #[test]
    fn points_are_found_by_their_digits_and_only_legal_ones() {
        let space = checkers();
        assert_eq!(space.len(), 8);
        for at in 0..space.len() {
            assert_eq!(space.find(space.digits(at)), Some(at));
        }
        assert_eq!(space.find(&[0, 1]), None);
        assert_eq!(space.find(&[9, 9]), None);
    }

    #[test]
    fn neighbours_differ_in_one_axis_and_skip_what_is_illegal() {
        let space = checkers();
        let at = space.find(&[0, 0]).unwrap();
        let mut found = Vec::new();
        space.neighbours(at, &mut found);
        let digits: Vec<&[u16]> = found.iter().map(|&at| space.digits(at)).collect();
        assert_eq!(digits, [&[2u16, 0][..], &[0, 2]]);
    }

    #[test]
    fn a_donors_point_is_mapped_by_name_to_the_nearest_legal_one() {
        let space = checkers();
        assert_eq!(space.nearest(&[("y", 3), ("x", 1)]), space.find(&[0, 2]));
        // Illegal here: one axis gives way.
        let near = space.nearest(&[("x", 1), ("y", 2)]).unwrap();
        assert!(space.digits(near)[0] == 0 || space.digits(near)[1] == 1);
        assert!(space.nearest(&[("x", 100), ("y", 4), ("z", 5)]).is_some());
        assert_eq!(space.nearest(&[("z", 5)]), None);
    }

    #[test]
    fn a_million_points_fit_in_two_hundred_megabytes() {
        let space = checkers();
        let bytes_a_point = space.axes.len() * 2 + 4 * 4;
        assert!(space.digits.len() == space.len() * space.axes.len() && space.table.len() <= space.len() * 4);
        assert!(1_000_000 * (MAX_AXES * 2 + bytes_a_point) < 200_000_000);
    }

    #[test]
    fn a_space_without_axes_or_points_can_be_asked() {
        let one = SearchSpace::new(&Space::new(vec![], vec![Point::EMPTY]));
        assert_eq!((one.len(), one.find(&[])), (1, Some(0)));
        let none = SearchSpace::new(&Space::new(vec!["a".into()], vec![]));
        assert!(none.is_empty() && none.nearest(&[("a", 1)]).is_none());
    }
}
