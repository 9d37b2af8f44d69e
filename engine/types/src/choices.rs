//! Enumerations whose values have one name each, in files, flags and the environment.

/// Occurs when a text names none of an enumeration's values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} {given:?}: use {}", list(.choices))]
pub struct UnknownChoice {
    /// What is chosen.
    pub what: &'static str,
    /// What was given.
    pub given: String,
    /// What could have been.
    pub choices: Vec<&'static str>,
}

/// `a, b or c`.
fn list(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [one] => one.to_string(),
        [most @ .., last] => format!("{} or {last}", most.join(", ")),
    }
}

/// Declares an enumeration whose values have names: `Display`, `FromStr` and serde all use them.
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
            /// Every value, in order.
            pub const ALL: &[$name] = &[$( $name::$variant, )+];

            /// The value's name.
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

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let found = $name::ALL.iter().find(|choice| choice.name() == text);
                found.copied().ok_or_else(|| $crate::UnknownChoice {
                    what: $what,
                    given: text.into(),
                    choices: $name::ALL.iter().map(|choice| choice.name()).collect(),
                })
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(self.name())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = String::deserialize(from)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
