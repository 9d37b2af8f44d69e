//! The formats of strings.

/// How a format is enforced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// By `llguidance`.
    Known,
    /// As a regular expression.
    Pattern(&'static str),
    /// Not at all: schemas with it are refused.
    Unsupported,
}

/// A year from 1 on, a month and a day that exist.
macro_rules! date {
    () => {
        concat!(
            "(?:",
            "(?:[0-9]{3}[1-9]|[0-9]{2}[1-9][0-9]|[0-9][1-9][0-9]{2}|[1-9][0-9]{3})-",
            "(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])",
            "|(?:0[13-9]|1[0-2])-(?:29|30)",
            "|(?:0[13578]|1[02])-31)",
            // The 29th of February in leap years.
            "|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])",
            "|(?:0[48]|[2468][048]|[13579][26])00)-02-29)"
        )
    };
}

/// A time without leap seconds, which are in few years and which most programs refuse.
macro_rules! time {
    () => {
        concat!(
            "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?",
            "(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
        )
    };
}

/// The formats that the standard defines.
const FORMATS: [(&str, Format); 19] = [
    ("date", Format::Pattern(date!())),
    ("time", Format::Pattern(time!())),
    ("date-time", Format::Pattern(concat!(date!(), "T", time!()))),
    ("json-pointer", Format::Pattern("(?:/(?:[^/~]|~[01])*)*")),
    (
        "relative-json-pointer",
        Format::Pattern("(?:0|[1-9][0-9]*)(?:#|(?:/(?:[^/~]|~[01])*)*)"),
    ),
    ("duration", Format::Known),
    ("email", Format::Known),
    ("hostname", Format::Known),
    ("ipv4", Format::Known),
    ("ipv6", Format::Known),
    ("uuid", Format::Known),
    ("uri", Format::Known),
    ("uri-reference", Format::Unsupported),
    ("uri-template", Format::Unsupported),
    ("iri", Format::Unsupported),
    ("iri-reference", Format::Unsupported),
    ("idn-email", Format::Unsupported),
    ("idn-hostname", Format::Unsupported),
    ("regex", Format::Unsupported),
];

/// Returns how a format is enforced; `None` if the standard does not define it.
pub(super) fn format(name: &str) -> Option<Format> {
    let mut formats = FORMATS.iter();
    let found = formats.find(|(known, _)| *known == name);
    found.map(|(_, format)| *format)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_exist() {
        let Some(Format::Pattern(date)) = format("date") else {
            panic!("no pattern");
        };
        let date = regex::Regex::new(&format!("^(?:{date})$")).unwrap();
        for good in [
            "2024-02-29",
            "2000-02-29",
            "0001-01-01",
            "2023-04-30",
            "1999-12-31",
        ] {
            assert!(date.is_match(good), "{good}");
        }
        let wrong = [
            "2023-02-29",
            "1900-02-29",
            "0000-01-01",
            "0000-02-29",
            "2023-04-31",
            "2023-13-01",
            "2023-00-10",
            "2023-02-30",
            "2023-1-1",
            "2023-06-00",
        ];
        for wrong in wrong {
            assert!(!date.is_match(wrong), "{wrong}");
        }
    }
}
