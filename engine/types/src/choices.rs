//! Enumerations whose values are chosen by name in files, flags and the environment.

/// Reports a text that names none of an enumeration's values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} {given:?}: use {}", list(.choices))]
pub struct UnknownChoice {
    /// What the enumeration stands for, such as "encoding".
    pub what: &'static str,
    /// The text that was given.
    pub given: String,
    /// The names of all values.
    pub choices: Vec<&'static str>,
}

/// Formats `a, b or c`.
fn list(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [one] => one.to_string(),
        [most @ .., last] => format!("{} or {last}", most.join(", ")),
    }
}

/// Declares an enumeration whose values have names, which `Display`, `FromStr` and serde use.
///
/// The second argument is what error messages call the enumeration:
///
/// ```
/// wisp_types::choices! {
///     /// Which way to search from a position.
///     Direction, "direction" {
///         /// Towards the start.
///         Back = "back",
///         /// Towards the end.
///         Forth = "forth",
///     }
/// }
///
/// assert_eq!("back".parse(), Ok(Direction::Back));
/// let error = "up".parse::<Direction>().unwrap_err();
/// assert_eq!(error.to_string(), r#"unknown direction "up": use back or forth"#);
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! choices {
    (
        $(#[$about:meta])*
        $name:ident, $what:literal {
            $( $(#[$doc:meta])* $variant:ident = $text:literal, )+
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[allow(non_camel_case_types)]
        pub enum $name { $( $(#[$doc])* $variant, )+ }

        impl $name {
            /// All values, in the order of their declaration.
            pub const ALL: &[$name] = &[$( $name::$variant, )+];

            /// Returns the name that files, flags and messages use.
            pub fn name(self) -> &'static str {
                match self { $( $name::$variant => $text, )+ }
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl ::std::str::FromStr for $name {
            type Err = $crate::UnknownChoice;

            fn from_str(text: &str) -> ::std::result::Result<Self, Self::Err> {
                let found = $name::ALL.iter().find(|choice| choice.name() == text);
                found.copied().ok_or_else(|| $crate::UnknownChoice {
                    what: $what,
                    given: text.into(),
                    choices: $name::ALL.iter().map(|choice| choice.name()).collect(),
                })
            }
        }

        impl $crate::serde::Serialize for $name {
            fn serialize<S: $crate::serde::Serializer>(
                &self,
                serializer: S,
            ) -> ::std::result::Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl<'de> $crate::serde::Deserialize<'de> for $name {
            fn deserialize<D: $crate::serde::Deserializer<'de>>(
                deserializer: D,
            ) -> ::std::result::Result<Self, D::Error> {
                let text = <::std::string::String as $crate::serde::Deserialize>::deserialize(
                    deserializer,
                )?;
                text.parse().map_err($crate::serde::de::Error::custom)
            }
        }
    };
}
