//! Names of images.

/// The registry that an image is pulled from.
pub(super) fn registry_of(image: &str) -> &str {
    match image.split_once('/') {
        Some((first, _)) if first.contains(['.', ':']) || first == "localhost" => first,
        _ => "docker.io",
    }
}

/// Whether an address that a file gives is this registry: `https://index.docker.io/v1/` is `docker.io`.
pub(super) fn is_at(address: &str, registry: &str) -> bool {
    let address = address.split_once("://").map_or(address, |(_, rest)| rest);
    let host = address.split('/').next().unwrap_or_default();
    let plain = |host: &str| match host {
        "" | "index.docker.io" | "registry-1.docker.io" => "docker.io".to_owned(),
        other => other.to_ascii_lowercase(),
    };
    plain(host) == plain(registry)
}

/// The image with the tag that is meant where none is named: without one an engine pulls all there are.
pub(super) fn tagged(image: &str) -> String {
    let name = image.rsplit('/').next().unwrap_or(image);
    if name.contains([':', '@']) { image.to_owned() } else { format!("{image}:latest") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_goes_to_its_own_registry_only() {
        assert_eq!(registry_of("redis:7"), "docker.io");
        assert_eq!(registry_of("library/redis"), "docker.io");
        assert_eq!(registry_of("127.0.0.1:5000/a/b:c"), "127.0.0.1:5000");
        assert_eq!(registry_of("localhost/a"), "localhost");
        assert!(is_at("https://index.docker.io/v1/", "docker.io"));
        assert!(is_at("http://R.example:5000", "r.example:5000"));
        assert!(!is_at("r.example", "docker.io") && !is_at("r", "docker.io"));
    }

    #[test]
    fn an_image_without_a_tag_is_the_latest() {
        assert_eq!(tagged("redis"), "redis:latest");
        assert_eq!(tagged("localhost:5000/redis"), "localhost:5000/redis:latest");
        assert_eq!(tagged("redis:7"), "redis:7");
        assert_eq!(tagged("redis@sha256:0"), "redis@sha256:0");
    }
}
