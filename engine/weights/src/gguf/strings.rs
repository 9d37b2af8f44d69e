//! Arrays of strings.

/// An array of strings in one allocation: a vocabulary has hundreds of thousands.
///
/// Bytes that are not UTF-8 were replaced by U+FFFD.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Strings {
    text: String,
    /// The end of each string in `text`.
    ends: Vec<usize>,
}

impl Strings {
    /// Returns the number of strings.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns true if there are no strings.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the string at `index`.
    pub fn get(&self, index: usize) -> Option<&str> {
        let end = *self.ends.get(index)?;
        let start = match index {
            0 => 0,
            _ => *self.ends.get(index - 1)?,
        };
        self.text.get(start..end)
    }

    /// Iterates over the strings.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        // `get` knows every index below `len`, so the default is never used.
        (0..self.len()).map(|index| self.get(index).unwrap_or_default())
    }

    /// Appends a string.
    pub fn push(&mut self, string: &str) {
        self.text.push_str(string);
        self.ends.push(self.text.len());
    }
}

impl<'a> FromIterator<&'a str> for Strings {
    fn from_iter<I: IntoIterator<Item = &'a str>>(strings: I) -> Strings {
        let mut all = Strings::default();
        for string in strings {
            all.push(string);
        }
        all
    }
}
