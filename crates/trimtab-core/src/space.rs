//! The legal settings of a kernel: axes, points, and the typed struct a kernel works with.

use std::borrow::Cow;
use std::fmt;

/// The most axes a space may have.
pub const MAX_AXES: usize = 16;

/// One setting of every axis: at most [`MAX_AXES`] values, in the order of the space's axes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Point {
    values: [u32; MAX_AXES],
    len: u8,
}

impl Point {
    /// The point of a kernel without settings.
    pub const EMPTY: Point = Point { values: [0; MAX_AXES], len: 0 };

    /// A point of these values; values beyond [`MAX_AXES`] are not kept, which [`Space::new`] refuses.
    pub const fn new(values: &[u32]) -> Point {
        let mut point = Point::EMPTY;
        let mut index = 0;
        while index < values.len() && index < MAX_AXES {
            point.values[index] = values[index];
            index += 1;
        }
        point.len = index as u8;
        point
    }

    /// The values in axis order.
    pub fn values(&self) -> &[u32] {
        &self.values[..self.len as usize]
    }
}

impl fmt::Debug for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.values()).finish()
    }
}

/// A kernel's own settings struct. Write one with [`config!`](crate::config).
pub trait Config: Copy + fmt::Debug + Send + Sync + 'static {
    /// The axis names, in field order; they are keys in wisdom.
    const AXES: &'static [&'static str];
    /// The values in field order.
    fn to_point(self) -> Point;
    /// The struct back from a point, or `None` if the number of values differs.
    fn from_point(point: &Point) -> Option<Self>;
}

/// Declares a kernel's settings: a struct of `u32` fields whose names are the axes.
///
/// ```
/// trimtab_core::config! {
///     /// Settings of a blocked kernel.
///     pub struct Blocked { tile, threads }
/// }
/// use trimtab_core::Config;
/// let config = Blocked { tile: 64, threads: 2 };
/// assert_eq!(Blocked::AXES, ["tile", "threads"]);
/// assert_eq!(Blocked::from_point(&config.to_point()).unwrap().tile, 64);
/// ```
#[macro_export]
macro_rules! config {
    ($(#[$meta:meta])* $vis:vis struct $name:ident { $($axis:ident),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        $vis struct $name {
            $(#[doc = concat!("The axis `", stringify!($axis), "`.")] pub $axis: u32,)*
        }
        impl $crate::Config for $name {
            const AXES: &'static [&'static str] = &[$(stringify!($axis)),*];
            #[inline]
            fn to_point(self) -> $crate::Point {
                $crate::Point::new(&[$(self.$axis),*])
            }
            #[inline]
            fn from_point(point: &$crate::Point) -> Option<Self> {
                match point.values() {
                    &[$($axis),*] => Some($name { $($axis),* }),
                    _ => None,
                }
            }
        }
    };
}

/// The legal points of a kernel for a problem on a device, the default first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Space {
    axes: Vec<Cow<'static, str>>,
    points: Vec<Point>,
}

impl Space {
    /// A space of these axes and points. Points that do not have one value per axis, and repeated points, are
    /// left out; axes beyond [`MAX_AXES`] leave the space without points.
    pub fn new(axes: Vec<Cow<'static, str>>, points: Vec<Point>) -> Space {
        let mut seen = rustc_hash::FxHashSet::default();
        let legal = axes.len() <= MAX_AXES;
        let points = points
            .into_iter()
            .filter(|p| legal && p.values().len() == axes.len() && seen.insert(*p))
            .collect();
        Space { axes, points }
    }

    /// The space of a typed kernel.
    pub fn of<C: Config>(configs: &[C]) -> Space {
        let axes = C::AXES.iter().map(|&name| Cow::Borrowed(name)).collect();
        Space::new(axes, configs.iter().map(|config| config.to_point()).collect())
    }

    /// The axis names.
    pub fn axes(&self) -> &[Cow<'static, str>] {
        &self.axes
    }

    /// Every legal point, the default first.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// The point by axis name and value, sorted by name: `kc=256,mc=64`; `-` without axes. This is the key in wisdom.
    pub fn name(&self, point: &Point) -> String {
        if self.axes.is_empty() {
            return "-".to_string();
        }
        let mut parts: Vec<(&str, u32)> =
            self.axes.iter().map(|axis| axis.as_ref()).zip(point.values().iter().copied()).collect();
        parts.sort_unstable();
        let parts: Vec<String> = parts.into_iter().map(|(axis, value)| format!("{axis}={value}")).collect();
        parts.join(",")
    }

    /// The legal point of that name, if the space still has it.
    pub fn find(&self, name: &str) -> Option<Point> {
        self.read(name).filter(|point| self.points.contains(point))
    }

    /// The point of that name, legal here or not: for what was learned of the same kernel on another problem.
    pub fn read(&self, name: &str) -> Option<Point> {
        let mut values = [0u32; MAX_AXES];
        let mut named = 0u32;
        if name != "-" {
            for part in name.split(',') {
                let (axis, value) = part.split_once('=')?;
                let index = self.axes.iter().position(|candidate| candidate == axis)?;
                *values.get_mut(index)? = value.parse().ok()?;
                named |= 1 << index;
            }
        }
        (named.count_ones() as usize == self.axes.len()).then(|| Point::new(&values[..self.axes.len()]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    config! {
        struct Two { tile, threads }
    }

    fn space() -> Space {
        Space::of(&[Two { tile: 8, threads: 1 }, Two { tile: 16, threads: 2 }])
    }

    #[test]
    fn a_point_is_named_by_sorted_axes_and_found_again() {
        let space = space();
        let name = space.name(&space.points()[1]);
        assert_eq!(name, "threads=2,tile=16");
        assert_eq!(space.find(&name), Some(space.points()[1]));
        assert_eq!(space.find("tile=16,threads=2"), Some(space.points()[1]));
    }

    #[test]
    fn a_point_that_is_no_longer_legal_or_malformed_is_not_found() {
        for name in ["threads=3,tile=16", "tile=16", "tile=16,threads=x", "a=1,b=2", "", "-", "tile=8,tile=8"]
        {
            assert_eq!(space().find(name), None, "{name}");
        }
    }

    #[test]
    fn repeated_points_and_points_of_the_wrong_length_are_left_out() {
        let points = vec![Point::new(&[1]), Point::new(&[1]), Point::new(&[1, 2])];
        assert_eq!(Space::new(vec!["a".into()], points).points(), [Point::new(&[1])]);
    }

    #[test]
    fn a_kernel_without_settings_has_the_empty_point() {
        let space = Space::new(vec![], vec![Point::EMPTY]);
        assert_eq!(space.name(&Point::EMPTY), "-");
        assert_eq!(space.find("-"), Some(Point::EMPTY));
    }
}
