//! One configuration in three formats, over which environment and flags go.
#![allow(clippy::unwrap_used)]

use crosstalk_settings::{Configuration, Fault, Loader, Period, Secret, effective};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
struct Config {
    listen: String,
    pause: Period,
    http: Http,
    store: Vec<Store>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
struct Http {
    token: Option<Secret>,
    connections: usize,
    share: f64,
    #[serde(deserialize_with = "crosstalk_settings::bytes")]
    body: u64,
    mode: Mode,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum Mode {
    #[default]
    Auto,
    Off,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Store {
    name: String,
    url: String,
}

impl Configuration for Config {
    fn follow(&mut self, is_set: &dyn Fn(&str) -> bool) {
        if !is_set("http.connections") {
            self.http.connections = 7;
        }
    }

    fn fault(&self) -> Option<Fault> {
        let bad = self.store.iter().position(|store| store.url.is_empty());
        bad.map(|at| Fault::new(format!("store[{at}].url"), "is empty"))
    }
}

const TOML: &str = "listen = \"a\"\npause = \"1m30s\"\n[http]\nbody = \"2MiB\"\nshare = 1\nmode = \"off\"\n\
                    [[store]]\nname = \"x\"\nurl = \"u\"\n";
const YAML: &str = "listen: a\npause: 1m30s\nhttp:\n  body: 2097152\n  share: 1.0\n  mode: off\n\
                    store:\n- name: x\n  url: u\n";
const JSON: &str = "{\"listen\": \"a\", \"pause\": \"1m30s\",\n \"http\": {\"body\": \"2MiB\", \"share\": 1, \"mode\": \"off\"},\n\
                    \"store\": [{\"name\": \"x\", \"url\": \"u\"}]}";

fn load(name: &str, text: &str) -> Result<Config, String> {
    let loaded = Loader::new("test").text(name, text).load();
    loaded.map(|loaded| loaded.config).map_err(|error| error.to_string())
}

#[test]
fn three_formats_say_the_same() {
    let config = load("c.toml", TOML).unwrap();
    assert_eq!(
        (config.http.body, config.http.mode, config.http.connections),
        (2 << 20, Mode::Off, 7)
    );
    assert_eq!(load("c.yaml", YAML), Ok(config.clone()));
    assert_eq!(load("c.json", JSON), Ok(config.clone()));
    for text in [TOML, YAML, JSON] {
        assert_eq!(load("no-ending", text), Ok(config.clone()), "{text}");
    }
    assert_eq!(load("c.yaml", "# nothing\n"), load("c.toml", ""));
}

#[test]
fn a_mistake_is_told_with_line_key_and_the_way_out_in_every_format() {
    for (name, text, expected) in [
        ("c.toml", "\nlisen = \"a\"", "c.toml:2: lisen: no such key; did you mean listen?"),
        (
            "c.yaml",
            "http:\n  conections: 1",
            "c.yaml:2: http.conections: no such key; did you mean connections?",
        ),
        (
            "c.json",
            "{\"http\": {\n\"x\": 1}}",
            "c.json:2: http.x: no such key; there are token, connections, share, body, mode",
        ),
        (
            "c.toml",
            "[http]\nconnections = -1",
            "c.toml:2: http.connections: must be a whole number, 0 or more",
        ),
        (
            "c.toml",
            "[http]\nconnections = \"1\"",
            "c.toml:2: http.connections: must be a whole number, 0 or more, not text",
        ),
        ("c.yaml", "http: 3", "c.yaml:1: http: must be a table, not a number"),
        ("c.toml", "[http]\n\nmode = \"on\"", "c.toml:3: http.mode: \"on\" is none of auto, off"),
        (
            "c.yaml",
            "pause: 30",
            "c.yaml:1: pause: must be a length of time in quotes, such as \"30s\", not a number",
        ),
        ("c.yaml", "store:\n- name: x\n", "c.yaml:2: store[0]: needs url"),
        ("c.toml", "[[store]]\nname = \"x\"\nurl = \"\"", "c.toml:3: store[0].url: is empty"),
        ("c.yaml", "a: 1\na: 2\n", "c.yaml:2: "),
    ] {
        let error = load(name, text).unwrap_err();
        assert!(error.starts_with(expected), "{error}\n{expected}");
    }
}

#[test]
fn flags_go_over_variables_and_those_over_the_file_each_named_when_wrong() {
    let variable = |name: &str, value: &str| {
        [(OsString::from(format!("CROSSTALK_TEST_{name}")), OsString::from(value))]
    };
    let loader = || Loader::new("test").text("c.toml", TOML);
    let listen = |loader: Loader| loader.load::<Config>().unwrap().config.listen;
    assert_eq!(listen(loader().environment(variable("LISTEN", "b"))), "b");
    let both =
        loader().environment(variable("LISTEN", "b")).flag("--listen", "listen", Some("\"c\""));
    assert_eq!(listen(both), "\"c\"");
    let error =
        loader().environment(variable("HTTP_CONNECTIONS", "many")).load::<Config>().unwrap_err();
    assert!(
        error.to_string().starts_with("CROSSTALK_TEST_HTTP_CONNECTIONS: http.connections: "),
        "{error}"
    );
    let added = loader()
        .push("--store", "store", &[("name", "y"), ("url", "")])
        .load::<Config>()
        .unwrap_err();
    assert_eq!(added.to_string(), "--store: store[1].url: is empty");
    let set = loader().environment(variable("HTTP__CONNECTIONS", "9")).load::<Config>().unwrap();
    assert_eq!(set.config.http.connections, 9);
}

#[test]
fn what_is_printed_is_what_was_loaded_but_for_secrets() {
    let mut config = load("c.toml", TOML).unwrap();
    assert_eq!(load("c.toml", &effective(&config).unwrap()), Ok(config.clone()));
    config.http.token = Some(Secret::new("s3cret"));
    let printed = effective(&config).unwrap();
    assert!(printed.contains("token = \"***\"") && !printed.contains("s3cret"), "{printed}");
}
