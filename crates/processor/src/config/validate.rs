//! What a type cannot say about a configuration.

use crosstalk_settings::{Configuration, Fault, Loader, SettingsError};
use url::Url;

use super::{Config, Secret};

impl Configuration for Config {
    fn fault(&self) -> Option<Fault> {
        let listener = self.listener.fault("listener");
        listener
            .or_else(|| self.fault_of_numbers())
            .or_else(|| self.fault_of_labels())
            .or_else(|| self.fault_of_endpoints())
            .or_else(|| self.fault_of_log_stores())
            .or_else(|| self.fault_of_log_patterns())
    }
}

impl Config {
    /// Reads and checks a text; `name` stands in errors and says the format.
    pub fn from_text(name: &str, text: &str) -> Result<Config, SettingsError> {
        Ok(Loader::new("processor").text(name, text).load()?.config)
    }

    /// Checks a configuration that was made or changed by a program.
    pub fn validate(&self) -> Result<(), SettingsError> {
        match self.fault() {
            Some(Fault { key, what }) => Err(SettingsError::Invalid { place: key, what }),
            None => Ok(()),
        }
    }

    fn fault_of_numbers(&self) -> Option<Fault> {
        let limits = &self.limits;
        let at_least_one = [
            ("limits.max_body_bytes", limits.max_body_bytes),
            ("limits.max_decoded_bytes", limits.max_decoded_bytes),
            ("limits.max_series", limits.max_series),
            ("limits.max_samples", limits.max_samples),
            ("limits.max_labels", limits.max_labels),
            ("limits.max_logs_records", limits.max_logs_records),
            ("limits.max_logs_observations", limits.max_logs_observations),
            ("logs.requests", self.logs.requests),
        ];
        let (key, _) = at_least_one.into_iter().find(|(_, value)| *value == 0)?;
        Some(Fault::new(key, "must be at least 1"))
    }

    /// More labels of one kind than are looked at would be passed over in silence.
    fn fault_of_labels(&self) -> Option<Fault> {
        let enrichment = &self.enrichment;
        let most = crate::cache::MAX_NAMES;
        let lists = [
            ("enrichment.node_labels", &enrichment.node_labels),
            ("enrichment.pod_labels", &enrichment.pod_labels),
            ("enrichment.uid_labels", &enrichment.uid_labels),
        ];
        let (key, _) = lists.into_iter().find(|(_, list)| list.len() > most)?;
        Some(Fault::new(key, format!("must name at most {most} labels")))
    }

    fn fault_of_endpoints(&self) -> Option<Fault> {
        for (index, endpoint) in self.endpoints.iter().enumerate() {
            let fault =
                |key: &str, what: &str| Some(Fault::new(format!("endpoint[{index}].{key}"), what));
            let name = &endpoint.name;
            if let Some(what) = fault_of_name(name) {
                return fault("name", what);
            }
            if self.endpoints[..index].iter().any(|other| other.name == *name) {
                return fault("name", &format!("{name:?} is used by another endpoint"));
            }
            if let Some(what) = fault_of_url(&endpoint.url) {
                return fault("url", &what);
            }
            if endpoint.bearer_token.is_some() && endpoint.bearer_token_file.is_some() {
                let what = "give bearer_token or bearer_token_file, not both";
                return fault("bearer_token_file", what);
            }
            if endpoint.client_cert.is_some() != endpoint.client_key.is_some() {
                return fault("client_cert", "give client_cert and client_key together");
            }
            if !(1..=MAX_IN_FLIGHT).contains(&endpoint.in_flight) {
                return fault("in_flight", &format!("must be 1 to {MAX_IN_FLIGHT}"));
            }
            for (name, value) in &endpoint.headers {
                if let Some(what) = fault_of_header(name, value.reveal()) {
                    return fault(&format!("headers.{name}"), what);
                }
            }
            // One request at its largest must fit, or it could never be taken.
            let body = self.limits.max_body_bytes;
            if endpoint.max_queue_bytes < body as u64 {
                let what = format!("must hold at least one body of limits.max_body_bytes ({body})");
                return fault("max_queue_bytes", &what);
            }
        }
        None
    }

    fn fault_of_log_stores(&self) -> Option<Fault> {
        let forwards = &self.logs.forwards;
        forwards.iter().enumerate().find_map(|(index, forward)| {
            let name = &forward.name;
            let twice = forwards[..index].iter().any(|other| other.name == *name);
            let twice = twice.then(|| format!("{name:?} is used by another log store"));
            let name = fault_of_name(name).map(str::to_owned).or(twice);
            let fault = name.map(|what| ("name", what));
            let fault = fault.or_else(|| Some(("url", fault_of_url(&forward.url)?)));
            let (key, what) = fault.or_else(|| forward.fault())?;
            Some(Fault::new(format!("logs.forward[{index}].{key}"), what))
        })
    }

    fn fault_of_log_patterns(&self) -> Option<Fault> {
        self.logs.patterns.iter().enumerate().find_map(|(index, pattern)| {
            let error =
                crosstalk_training_log::Pattern::new(&pattern.name, &pattern.regex).err()?;
            Some(Fault::new(format!("logs.pattern[{index}].regex"), error.to_string()))
        })
    }
}

/// What is wrong with a name, which is a folder's too.
fn fault_of_name(name: &str) -> Option<&'static str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let good = (1..=64).contains(&name.len()) && !name.starts_with('.') && name.chars().all(plain);
    (!good).then_some("use 1 to 64 letters, digits, '-', '_' or '.', not beginning with '.'")
}

/// What is wrong with an address to send to.
fn fault_of_url(url: &Secret) -> Option<String> {
    match Url::parse(url.reveal()) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => None,
        Ok(_) => Some("must begin with http:// or https:// and a host".to_owned()),
        Err(error) => Some(error.to_string()),
    }
}

/// Requests in flight to one endpoint at most: every one of them holds a body in memory.
const MAX_IN_FLIGHT: u8 = 64;

/// Headers that the protocol or the connection has a say in.
const OUR_HEADERS: [&str; 8] = [
    "authorization",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "host",
    "transfer-encoding",
    "x-prometheus-remote-write-version",
];

fn fault_of_header(name: &str, value: &str) -> Option<&'static str> {
    use hyper::header::{HeaderName, HeaderValue};
    match HeaderName::from_bytes(name.as_bytes()) {
        Err(_) => Some("is no name of a header"),
        Ok(name) if OUR_HEADERS.contains(&name.as_str()) => {
            Some("is set by the processor itself; a token goes into bearer_token")
        }
        Ok(_) if HeaderValue::from_str(value).is_err() => {
            Some("has a value that no header can have")
        }
        Ok(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crosstalk_settings::Loaded;
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    fn error(source: &str) -> String {
        Config::from_text("p.toml", source).unwrap_err().to_string()
    }

    fn with(variables: &[(&str, &str)]) -> Result<Loaded<Config>, SettingsError> {
        let variables = variables.iter().map(|(name, value)| {
            (OsString::from(format!("CROSSTALK_PROCESSOR_{name}")), OsString::from(value))
        });
        Loader::new("processor").environment(variables).load()
    }

    #[test]
    fn nothing_configured_is_a_working_configuration() {
        let config = with(&[]).unwrap().config;
        assert!(config.listen.ip().is_loopback());
        assert!(config.endpoints.is_empty());
    }

    #[test]
    fn the_sample_says_exactly_the_defaults() {
        let sample = Config::from_text("sample.toml", super::super::SAMPLE).unwrap();
        assert_eq!(format!("{sample:?}"), format!("{:?}", Config::default()));
    }

    #[test]
    fn a_wrong_value_is_named_with_its_line() {
        let text = error("listen = \"127.0.0.1:1\"\n\n[enrichment]\nmissing = \"lose\"\n");
        assert!(text.starts_with("p.toml:4: enrichment.missing: "), "{text}");
        let text = error("[limits]\nmax_serie = 1\n");
        assert_eq!(text, "p.toml:2: limits.max_serie: no such key; did you mean max_series?");
        let text = error("[listener]\nhead_timeout_seconds = 30\n");
        assert!(text.starts_with("p.toml:2: ") && text.contains("mean head_timeout?"), "{text}");
    }

    #[test]
    fn a_value_that_makes_no_sense_is_named_with_its_line() {
        let text = error("[[endpoint]]\nname = \"a\"\nurl = \"ftp://x\"\n");
        assert!(text.starts_with("p.toml:3: endpoint[0].url: "), "{text}");
        let forward = "[[logs.forward]]\nname = \"a\"\nurl = \"http://x/\"\n";
        let text = error(&format!("{forward}kind = \"kafka\"\n"));
        assert!(text.starts_with("p.toml:4: logs.forward[0].kind: "), "{text}");
        let text = error(&format!("{forward}{forward}"));
        assert!(text.starts_with("p.toml:5: logs.forward[1].name: "), "{text}");
        let text = error(&format!("{forward}headers = {{\"a b\" = \"s3cret\"}}\n"));
        assert!(text.starts_with("p.toml:4: ") && !text.contains("s3cret"), "{text}");
        let text = error("[listener]\ntls_cert = \"a.pem\"\n");
        assert!(text.starts_with("p.toml:2: ") && text.contains("tls_key"), "{text}");
        let endpoint = "[[endpoint]]\nname = \"a\"\nurl = \"http://x/\"\n";
        let text = error(&endpoint.repeat(2));
        assert!(text.starts_with("p.toml:5: endpoint[1].name: "), "{text}");
        let text = error("[[endpoint]]\nname = \"a\"\nurl = \"http://me:s3cret@:99999/\"\n");
        assert!(text.starts_with("p.toml:3: ") && !text.contains("s3cret"), "{text}");
    }

    #[test]
    fn yaml_and_json_are_told_off_with_their_lines_too() {
        let yaml = "endpoint:\n- name: a\n  url: ftp://x\n";
        let text = Config::from_text("p.yaml", yaml).unwrap_err().to_string();
        assert!(text.starts_with("p.yaml:3: endpoint[0].url: "), "{text}");
        let json = "{\"limits\":\n {\"max_body_bytes\": \"much\"}}";
        let text = Config::from_text("p.json", json).unwrap_err().to_string();
        assert!(text.starts_with("p.json:2: limits.max_body_bytes: "), "{text}");
        let config = Config::from_text("p.yaml", "limits: {max_body_bytes: 1MiB}").unwrap();
        assert_eq!(config.limits.max_body_bytes, 1 << 20);
    }

    #[test]
    fn one_configuration_reads_the_same_in_yaml_json_and_toml() {
        let yaml = "listen: 127.0.0.1:9000\ndatabase: postgres://db/x\nretention: 90d\nendpoint:\n- name: a\n  url: http://x/\nlogs:\n  series: false\n";
        let json = r#"{"listen": "127.0.0.1:9000", "database": "postgres://db/x", "retention": "90d",
            "endpoint": [{"name": "a", "url": "http://x/"}], "logs": {"series": false}}"#;
        let toml = "listen = \"127.0.0.1:9000\"\ndatabase = \"postgres://db/x\"\nretention = \"90d\"\n[logs]\nseries = false\n[[endpoint]]\nname = \"a\"\nurl = \"http://x/\"\n";
        let [yaml, json, toml] =
            [("config.yaml", yaml), ("config.json", json), ("config.toml", toml)]
                .map(|(name, text)| format!("{:?}", Config::from_text(name, text).unwrap()));
        assert_eq!(yaml, json);
        assert_eq!(yaml, toml);
        let text =
            Config::from_text("c.yaml", "\nretention: {event_strem: 90d}").unwrap_err().to_string();
        assert!(text.starts_with("c.yaml:2: ") && text.contains("event_stream"), "{text}");
        let text = Config::from_text("c.yaml", "retention: soon").unwrap_err().to_string();
        assert!(text.starts_with("c.yaml:1: retention: ") && text.contains("90d"), "{text}");
        let one = with(&[("RETENTION_EVENT_STREAM", "7d")]).unwrap().config.retention;
        assert_eq!(one.event_stream.unwrap().get().as_secs(), 7 * 86_400);
        assert_eq!(one.workload_event, None);
        let all = with(&[("RETENTION", "30d")]).unwrap().config.retention;
        assert_eq!(all.limited().count(), 3);
    }

    #[test]
    fn the_environment_goes_over_the_file() {
        let text = "listen = \"127.0.0.1:1\"\n[limits]\nmax_series = 5\n";
        let variables = [
            ("CROSSTALK_PROCESSOR_LISTEN", "127.0.0.1:2"),
            ("CROSSTALK_PROCESSOR_LIMITS__MAX_LABELS", "7"),
            ("CROSSTALK_PROCESSOR_ENRICHMENT_MISSING", "tag"),
            ("HOME", "/"),
        ];
        let variables = variables.map(|(key, value)| (key.into(), value.into()));
        let loader = Loader::new("processor").text("p.toml", text).environment(variables);
        let config = loader.load::<Config>().unwrap().config;
        assert_eq!(config.listen.port(), 2);
        assert_eq!((config.limits.max_series, config.limits.max_labels), (5, 7));
        assert_eq!(config.enrichment.missing, super::super::Missing::Tag);
    }

    #[test]
    fn variables_of_a_kubernetes_service_of_our_name_do_not_stop_a_start() {
        let loaded = with(&[
            ("SERVICE_HOST", "10.0.0.7"),
            ("SERVICE_PORT", "8989"),
            ("SERVICE_PORT_HTTP", "8989"),
            ("PORT", "tcp://10.0.0.7:8989"),
            ("PORT_8989_TCP", "tcp://10.0.0.7:8989"),
            ("PORT_8989_TCP_ADDR", "10.0.0.7"),
            ("PORT_8989_TCP_PORT", "8989"),
            ("PORT_8989_TCP_PROTO", "tcp"),
            ("HEADLESS_SERVICE_HOST", "None"),
        ])
        .unwrap();
        assert_eq!(loaded.warnings, Vec::<String>::new());
        assert_eq!(loaded.config.listen, Config::default().listen);
    }

    #[test]
    fn a_misspelt_variable_is_refused_and_one_of_somebody_else_is_only_mentioned() {
        let text = with(&[("LISTENER__BEARER_TOKN", "s3cret")]).unwrap_err().to_string();
        assert!(text.contains("CROSSTALK_PROCESSOR_LISTENER_BEARER_TOKEN?"), "{text}");
        assert!(!text.contains("s3cret"), "{text}");
        let loaded = with(&[("HELM_RELEASE", "x")]).unwrap();
        assert!(loaded.warnings[0].contains("CROSSTALK_PROCESSOR_HELM_RELEASE"), "{loaded:?}");
    }

    #[test]
    fn a_variable_that_is_not_utf8_stops_nothing_unless_it_is_a_key() {
        let odd = || OsString::from_vec(vec![0xff, 0xfe]);
        let load = |name: OsString| {
            Loader::new("processor").environment([(name, odd())]).load::<Config>().map(drop)
        };
        assert!(load("PATH_OF_OURS".into()).is_ok());
        assert!(load("CROSSTALK_PROCESSOR_HELM_RELEASE".into()).is_ok());
        let mut name = OsString::from("CROSSTALK_PROCESSOR_");
        name.push(odd());
        assert!(load(name).is_ok());
        let text = load("CROSSTALK_PROCESSOR_DATA_DIR".into()).unwrap_err().to_string();
        assert!(text.contains("not UTF-8"), "{text}");
    }

    #[test]
    fn a_token_of_any_shape_is_taken_from_the_environment_as_it_is() {
        for token in ["98765432101", "0x1f", "1_000", "1e5", "true", "2026-11-16", "[1]", "s3cret"]
        {
            let config = with(&[("LISTENER__BEARER_TOKEN", token)]).unwrap().config;
            assert_eq!(config.listener.bearer_token.unwrap().reveal(), token);
        }
    }

    #[test]
    fn no_error_repeats_a_secret() {
        for source in [
            "[listener]\nbearer_token = 98765432101\n",
            "[listener]\nbearer_token = [98765432101]\n",
            "[listener]\nbearer_token = 98765432101.5\n",
            "listener = \"98765432101\"\n",
            "listener = 98765432101\n",
            "[[endpoint]]\nname = \"a\"\nurl = 98765432101\n",
            "endpoint = \"http://me:98765432101@host/\"\n",
        ] {
            let text = error(source);
            assert!(!text.contains("98765432101"), "{text}");
            assert!(text.starts_with("p.toml:"), "{text}");
        }
        let text = error("\n[listener]\nbearer_token = 98765432101\n");
        assert!(text.starts_with("p.toml:3: ") && text.contains("quotes"), "{text}");
        for (variable, value) in [
            ("LISTENER", "bearer_token = 98765432101"),
            ("ENDPOINT", "[{name = \"a\", url = \"http://me:98765432101@host/\" oops}]"),
            ("ENDPOINT", "[{name = \"a\", url = \"http://h/\", bearer_token = 98765432101}]"),
        ] {
            let text = with(&[(variable, value)]).unwrap_err().to_string();
            assert!(text.contains(variable) && !text.contains("98765432101"), "{text}");
        }
    }

    #[test]
    fn the_effective_configuration_hides_secrets() {
        let config = Config::from_text(
            "p.toml",
            "database = \"postgres://me:s3cret@db/x\"\n[listener]\nbearer_token = \"s3cret\"\n",
        );
        let printed = crosstalk_settings::effective(&config.unwrap()).unwrap();
        assert!(
            printed.contains("postgres://me:***@db/x") && !printed.contains("s3cret"),
            "{printed}"
        );
    }
}
