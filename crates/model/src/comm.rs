use std::borrow::Cow;
use std::fmt;

/// A process name as the kernel keeps it: at most 15 bytes, any bytes.
///
/// ```
/// use crosstalk_model::Comm;
///
/// assert_eq!(Comm::from_bytes(*b"postgres\0\0\0\0\0\0\0\0").to_str(), "postgres");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Comm([u8; 16]);

impl Comm {
    /// The name of the row that stands for processes beyond what one slot of one core can hold.
    pub const OTHER: Self = Self(*b"[other]\0\0\0\0\0\0\0\0\0");

    /// Takes the kernel's zero-terminated bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// A name that was text already, cut to what the kernel keeps.
    ///
    /// ```
    /// use crosstalk_model::Comm;
    ///
    /// assert_eq!(Comm::from_text("a-name-of-sixteen").to_str(), "a-name-of-sixte");
    /// ```
    pub fn from_text(text: &str) -> Self {
        let mut bytes = [0; 16];
        let kept = text.floor_char_boundary(bytes.len() - 1);
        bytes[..kept].copy_from_slice(&text.as_bytes()[..kept]);
        Self(bytes)
    }

    /// The bytes before the first zero.
    pub fn as_bytes(&self) -> &[u8] {
        let end = self.0.iter().position(|&b| b == 0).unwrap_or(self.0.len());
        &self.0[..end]
    }

    /// The name as text; bytes that are not UTF-8 are replaced.
    pub fn to_str(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.as_bytes())
    }
}

impl fmt::Debug for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_str())
    }
}

impl fmt::Display for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.to_str())
    }
}
