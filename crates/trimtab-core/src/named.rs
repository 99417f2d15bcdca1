//! Enums whose values have names.

/// An enum whose values have names: in texts, files, output, and for people. They are listed, named and found the same way everywhere.
///
/// ```
/// trimtab_core::named! {
///     /// Directions.
///     pub enum Direction {
///         /// Up.
///         Up = "up",
///         /// Down.
///         Down = "down",
///     }
/// }
/// assert_eq!(Direction::ALL.map(Direction::name), ["up", "down"]);
/// assert_eq!(Direction::parse("down"), Some(Direction::Down));
/// assert_eq!(Direction::Up.to_string(), "up");
/// ```
#[macro_export]
macro_rules! named {
    ($(#[$meta:meta])* $vis:vis enum $name:ident { $($(#[$doc:meta])* $value:ident = $text:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $vis enum $name { $($(#[$doc])* $value,)* }

        impl $name {
            /// Every one, in the order they are listed to people.
            pub const ALL: [$name; [$($text),*].len()] = [$($name::$value),*];

            /// The name.
            pub const fn name(self) -> &'static str {
                match self { $($name::$value => $text,)* }
            }

            /// The one of that name.
            pub fn parse(name: &str) -> Option<$name> {
                $name::ALL.into_iter().find(|known| known.name() == name)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}
