use crate::Error;
use std::fmt;
use std::path::PathBuf;
use url::Url;

/// A folder or file of this machine, or an object store.
///
/// ```
/// use crosstalk_recording::Place;
///
/// assert_eq!(Place::parse("my rec")?, Place::Local("my rec".into()));
/// assert_eq!(Place::parse("file://localhost/my%20rec")?, Place::Local("/my rec".into()));
/// assert_eq!(Place::parse("s3://cluster/rec/")?, Place::Store("s3://cluster/rec".to_owned()));
/// # Ok::<(), crosstalk_recording::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A path.
    Local(PathBuf),
    /// A URL, without slashes at its end.
    Store(String),
}

impl Place {
    /// What is no URL is a path, whatever else it looks like.
    ///
    /// # Errors
    /// The URL cannot be read, or names a file of another machine.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if !text.contains("://") {
            return Ok(Self::Local(text.into()));
        }
        let wrong = |reason: String| Error::Store { url: text.to_owned(), reason };
        let url = Url::parse(text).map_err(|error| wrong(error.to_string()))?;
        if url.scheme() != "file" {
            return Ok(Self::Store(text.trim_end_matches('/').to_owned()));
        }
        let elsewhere =
            "names a file of another machine; one of this has three slashes: file:///DIR";
        url.to_file_path().map(Self::Local).map_err(|()| wrong(elsewhere.to_owned()))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(path) => path.display().fmt(f),
            Self::Store(url) => f.write_str(url),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stays_a_path_and_a_file_url_becomes_one() {
        for path in ["rec", "/data/rec", "a%20b", "node:7/rec", "s3:/x", ""] {
            assert_eq!(Place::parse(path).unwrap(), Place::Local(path.into()), "{path}");
        }
        for url in ["file:///data/a%20b", "file://localhost/data/a%20b", "FILE:///data/a%20b"] {
            assert_eq!(Place::parse(url).unwrap(), Place::Local("/data/a b".into()), "{url}");
        }
    }

    #[test]
    fn a_file_of_another_machine_is_refused_with_the_way_out() {
        let error = Place::parse("file://rec/today").unwrap_err().to_string();
        assert!(error.contains("file://rec/today") && error.contains("file:///DIR"), "{error}");
        assert!(Place::parse("s3://[::/rec").is_err());
    }
}
