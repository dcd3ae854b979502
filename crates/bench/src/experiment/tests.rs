use super::arrivals::ARRIVALS;
use super::container::{
    AUTH, BENCHMARK, CONTAINER, CONTAINER_DATA, DATA, DB, DOCKER, LEVELS, PROGRESS, REGISTRY,
    SCHEDULER,
};
use super::limits::{IO, NETWORK};
use super::*;
use serde_json::Value as Json;

/// As people have it already.
const KNOWN: &str = r#"benchmark:
  name: x                # required
  description: ""
  max_t: 300             # s; -1 = until a signal
  log_level: info
  scheduler: {implementation: adaptive, rdt: true}     # default | rdt | adaptive
  data:
    profilefrequency: 100                              # ms
    db: {host: ${INFLUXDB_HOST}, name: bucket, user: u, password: TOKEN, org: rdt4nn}
    rdt: true
    perf: true
    dockerstats: true
  docker: {auth: {registry: r, username: u, password: p}}
container0:              # every other top-level key is a container
  index: 0
  image: redis:7         # required
  port: "6379:6379"
  start: 0               # s after the common zero
  stop: -1
  core: 1
  env: {K: v}
  command: "..."
"#;

fn around() -> Surroundings {
    Surroundings { cpus: CpuSet::from_iter(0..4), path: vec!["/bin".into()] }
}

fn parse(text: &str) -> Result<Experiment, Vec<String>> {
    let host = ("INFLUXDB_HOST".to_owned(), "http://db:8086".to_owned());
    let variables = Variables::default().with([host]);
    Experiment::parse("e.yaml", text, &variables, &around())
        .map_err(|mistakes| mistakes.iter().map(Mistake::to_string).collect())
}

#[test]
fn the_file_people_have_loads_unchanged() {
    let read = parse(KNOWN).unwrap();
    assert_eq!((read.name.as_str(), read.end), ("x", End::After(Duration::from_secs(300))));
    assert_eq!((read.scheduler.name, read.use_rdt), ("adaptive", true));
    let database = read.database.unwrap();
    assert_eq!((database.host.as_str(), database.name.as_str()), ("http://db:8086", "bucket"));
    assert_eq!(database.password.unwrap().reveal(), "TOKEN");
    assert_eq!(read.registry.unwrap().address, "r");
    let container = &read.containers[0];
    assert_eq!(container.image.as_deref(), Some("redis:7"));
    let ports: Vec<(u16, u16)> = container.ports.iter().map(|p| (p.host, p.container)).collect();
    assert_eq!((&ports[..], container.stop), (&[(6379, 6379)][..], None));
    assert_eq!(container.cpus, Some(CpuSet::from_iter([1])));
    assert_eq!(
        (container.env["K"].as_str(), &container.command[..]),
        ("v", &["...".to_owned()][..])
    );
}

#[test]
fn every_mistake_is_told_at_once_with_its_line() {
    let text = "benchmark:
  nmae: x
  max_t: soon
  scheduler: {implementation: clever}
  data: {profilefrequency: 5, db: {host: ${NOT_SET}, name: b}}
a:
  index: 0
  image: i
  core: 9
  port: \"70000:1\"
b:
  index: 0
  start: 5
  stop: 4
  command: no-such-program-here --flag
c: {index: 1}
";
    let told = parse(text).unwrap_err();
    let expected = [
        "2: benchmark.name: is needed",
        "2: benchmark.nmae: no such key; did you mean name?",
        "3: benchmark.max_t: must be a number",
        "4: benchmark.scheduler.implementation: \"clever\" is none of default, rdt, adaptive",
        "5: ${NOT_SET} is not set, in the environment or in .env",
        "5: benchmark.data.profilefrequency: must be a whole number, 50 to 3600000",
        "5: benchmark.data.db.host: is needed",
        "9: a.core: there is no core 9; this machine has 0-3",
        "10: a.port: must be two ports from 1 to 65535, such as \"6379:6379\"",
        "12: b.index: 0 is the index of a already",
        "14: b.stop: must be after start (5s)",
        "15: b.command: there is no program no-such-program-here on this machine",
        "16: c: needs image, or a command to run without one",
    ];
    let mut missing: Vec<&str> = expected.to_vec();
    missing.retain(|line| !told.iter().any(|told| told == line));
    assert!(missing.is_empty() && told.len() == expected.len(), "{missing:#?}\n{told:#?}");
    let lines: Vec<u32> =
        told.iter().map(|t| t.split(':').next().unwrap().parse().unwrap()).collect();
    assert!(lines.is_sorted(), "{told:#?}");
}

#[test]
fn a_mistake_is_told_once_and_nothing_is_said_that_follows_from_it() {
    let text = "benchmark: {name: x}
a: {index: 0, command: sh}
b: {index: -1, command: \"sh -c 'open\", io: {read: fast}}
c: {index: 1, command: \"\", image: i, network: {send: 0MiB}}
d: {index: 2, command: \"\"}
e: {index: 3, command: sh, io: {disk: vda}}
";
    let told = parse(text).unwrap_err();
    let expected = [
        "3: b.index: must be a whole number, 0 to 9999",
        "3: b.io.read: \"fast\" is not a size; write 64KiB, 256MiB or 1GiB",
        "3: b.command: has a quote that is not closed",
        "4: c.network.send: \"0MiB\" is not a size; write 64KiB, 256MiB or 1GiB",
        "5: d.command: has no word in it",
        "6: e.io: must have one of read, write, read_ops and write_ops",
    ];
    let mut missing: Vec<&str> = expected.to_vec();
    missing.retain(|line| !told.iter().any(|told| told == line));
    assert!(missing.is_empty() && told.len() == expected.len(), "{missing:#?}\n{told:#?}");
}

#[test]
fn a_start_after_the_end_is_told_at_the_line_of_the_start() {
    let text = "benchmark: {name: x, max_t: 20}
a:
  index: 0
  start: 30
  command: sh
  stop: 40
";
    let told = parse(text).unwrap_err();
    assert_eq!(told, ["4: a.start: is not before the end of the experiment (20s)"]);
}

#[test]
fn cores_are_ranges_or_a_number_of_those_least_used() {
    let text = "benchmark: {name: x}
a: {index: 1, command: sh, core: \"0-1\"}
b: {index: 0, command: sh, num_cores: 2}
c: {index: 2, command: sh, num_cores: 3, core: 1}
";
    let told = parse(text).unwrap_err();
    assert_eq!(told, ["4: c.num_cores: core names 1 of them"]);
    let read = parse(text.rsplit_once("\nc:").unwrap().0).unwrap();
    let cores: Vec<String> =
        read.containers.iter().map(|c| c.cpus.as_ref().unwrap().to_string()).collect();
    assert_eq!(cores, ["2-3", "0-1"], "by index");
}

#[test]
fn progress_is_lines_a_number_a_key_or_an_address() {
    let with = |progress: &str| {
        let text =
            format!("benchmark: {{name: x}}\na: {{index: 0, command: sh, progress: {progress}}}\n");
        parse(&text).map(|read| read.containers[0].progress.clone().unwrap())
    };
    assert_eq!(with("lines"), Ok(Progress::Lines));
    assert_eq!(with("{number: \"done \"}"), Ok(Progress::Number("done ".to_owned())));
    assert_eq!(with("{json: pieces}"), Ok(Progress::Json("pieces".to_owned())));
    assert!(matches!(with("{url: \"http://127.0.0.1:1/\", after: x}"), Ok(Progress::Url { .. })));
    for wrong in ["words", "{}", "{json: a, number: b}", "{url: \"ftp://x\"}"] {
        assert!(with(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn limits_switches_and_the_successors_names_are_read() {
    let text = "benchmark: {name: x}
a:
  index: 0
  image: i
  start_t: 2
  stop_t: 9
  expected_t: 30
  environment: {K: v}
  io: {disk: /dev/vda, read: 1MiB, write_ops: 50}
  network: {send: 2MiB}
  data: {docker: false, rdt: false}
  init: false
b: {index: 1, command: sh}
";
    assert!(parse(text).unwrap().containers[1].init, "unless it says otherwise");
    let a = parse(text).unwrap().containers.remove(0);
    assert_eq!((a.start.as_secs(), a.stop.map(|s| s.as_secs())), (2, Some(9)));
    assert_eq!((a.expected, a.env["K"].as_str()), (Some(Duration::from_secs(30)), "v"));
    assert!(!a.init);
    let io = a.io.unwrap();
    assert_eq!((io.disk.as_deref(), io.limits.read_bytes), (Some("vda"), Some(1 << 20)));
    assert_eq!((io.limits.writes, io.limits.written_bytes), (Some(50), None));
    assert_eq!(a.network, Some(NetworkLimits { receive: None, send: Some(2 << 20) }));
    assert_eq!(a.data, ContainerData { rdt: false, containers: false, ..ContainerData::default() });
    let wrong = "benchmark: {name: x, data: {db: {host: h, name: n, version: 2}}}
a: {index: 0, command: sh, network: {send: 1MiB}, io: {disk: vda}, start: 1, start_t: 2}
";
    let told = parse(wrong).unwrap_err();
    let expected = [
        "1: benchmark.data.db.org: is needed for version 2",
        "2: a.start_t: is the same as start; leave one out",
        "2: a.io: must have one of read, write, read_ops and write_ops",
        "2: a.network: a process without an image uses the host's network; leave it out",
    ];
    assert_eq!(told, expected);
}

#[test]
fn other_words_for_the_same_that_people_have_in_their_files_are_read() {
    let text = "benchmark:
  name: x
  log_level: fatal
  docker: {registry: {host: r, username: u, password: p}}
a: {index: 0, image: i, priority: true, data: {frequency: 250}}
b: {index: 1, image: i, priority: false}
";
    let read = parse(text).unwrap();
    assert_eq!(read.log_level.as_deref(), Some("error"));
    let registry = read.registry.unwrap();
    assert_eq!((registry.address.as_str(), registry.user.as_str()), ("r", "u"));
    let [a, b] = &read.containers[..] else { panic!("two") };
    assert_eq!((a.priority, b.priority), (1, 0));
    assert_eq!((a.data.period, b.data.period), (Some(Duration::from_millis(250)), None));
    let both = "benchmark: {name: x, log_level: loud, docker: {auth: {}, registry: {}}}
a: {index: 0, image: i, priority: high, data: {frequency: 5}}
";
    let told = parse(both).unwrap_err();
    let expected = [
        "1: benchmark.log_level: must be one of trace, debug, info, warn, error, fatal, panic",
        "1: benchmark.docker.registry: is the same as auth; leave one out",
        "2: a.priority: must be a number",
        "2: a.data.frequency: must be a whole number, 50 to 3600000",
    ];
    let missing: Vec<_> = expected.iter().filter(|&line| !told.iter().any(|t| t == line)).collect();
    assert!(missing.is_empty(), "{missing:#?}\n{told:#?}");
}

#[test]
fn a_container_that_arrives_several_times_is_as_many_containers() {
    let text = "benchmark: {name: x, max_t: 60}
a: {index: 3, command: sh}
b: {index: 1, command: sh, start: 5, arrivals: {count: 4, mean: 3, length: 2, seed: 9}}
";
    let read = parse(text).unwrap();
    let named: Vec<(&str, u32)> =
        read.containers.iter().map(|c| (c.name.as_str(), c.index)).collect();
    assert_eq!(named, [("b-1", 1), ("a", 3), ("b-2", 4), ("b-3", 5), ("b-4", 6)]);
    for c in read.containers.iter().filter(|c| c.arrival.is_some()) {
        let length = c.stop.unwrap() - c.start;
        assert!(c.start > Duration::from_secs(5) && length == Duration::from_secs(2), "{c:?}");
    }
    let clash = text.replace("a:", "b-2:").replace("mean: 3, ", "");
    let told = parse(&clash).unwrap_err();
    let expected = [
        "3: b.arrivals.mean: is needed: seconds between two arrivals on average",
        "3: b.arrivals: one of them would be called b-2, which another is",
    ];
    assert_eq!(told, expected);
}

#[test]
fn the_schema_has_the_keys_that_are_read() {
    let schema: Json = serde_json::from_str(SCHEMA).unwrap();
    let keys = |pointer: &str| {
        let table = schema.pointer(pointer).unwrap_or_else(|| panic!("no {pointer}"));
        assert_eq!(table["additionalProperties"], Json::Bool(false), "{pointer}");
        let mut keys: Vec<&str> =
            table["properties"].as_object().unwrap().keys().map(String::as_str).collect();
        keys.sort_unstable();
        keys
    };
    let read = |known: &'static [&'static str]| {
        let mut known = known.to_vec();
        known.sort_unstable();
        known
    };
    assert_eq!(keys("/properties/benchmark"), read(BENCHMARK));
    assert_eq!(keys("/properties/benchmark/properties/scheduler"), read(SCHEDULER));
    let words = "/properties/benchmark/properties/scheduler/properties/implementation/anyOf/0/enum";
    let schedulers: Vec<&str> = scheduler::ALL.iter().map(|one| one.name).collect();
    assert_eq!(schema.pointer(words).unwrap(), &Json::from(schedulers));
    assert_eq!(keys("/properties/benchmark/properties/data"), read(DATA));
    assert_eq!(keys("/properties/benchmark/properties/data/properties/db"), read(DB));
    let levels = schema.pointer("/properties/benchmark/properties/log_level/anyOf/0/enum");
    assert_eq!(levels, Some(&Json::from(LEVELS)));
    let docker = "/properties/benchmark/properties/docker";
    assert_eq!(keys(docker), read(DOCKER));
    assert_eq!(keys(&format!("{docker}/properties/auth")), read(AUTH));
    assert_eq!(keys(&format!("{docker}/properties/registry")), read(REGISTRY));
    assert_eq!(keys("/additionalProperties"), read(CONTAINER));
    assert_eq!(keys("/additionalProperties/properties/progress/oneOf/1"), read(PROGRESS));
    assert_eq!(keys("/additionalProperties/properties/data"), read(CONTAINER_DATA));
    assert_eq!(keys("/additionalProperties/properties/io"), read(IO));
    assert_eq!(keys("/additionalProperties/properties/network"), read(NETWORK));
    assert_eq!(keys("/additionalProperties/properties/arrivals"), read(ARRIVALS));
}

/// Calls `look` with every value of a schema that says what type something is.
fn typed<'a>(path: &str, schema: &'a Json, look: &mut dyn FnMut(&str, &'a Json)) {
    if schema.get("type").is_some() {
        look(path, schema);
    }
    let all: Vec<(String, &Json)> = match schema {
        Json::Object(keys) => keys.iter().map(|(key, value)| (key.clone(), value)).collect(),
        Json::Array(items) => (0..).map(|at: u32| at.to_string()).zip(items).collect(),
        _ => Vec::new(),
    };
    for (key, value) in all {
        typed(&format!("{path}/{key}"), value, look);
    }
}

#[test]
fn a_variable_can_stand_wherever_a_number_or_a_flag_can_and_the_schema_says_so() {
    let schema: Json = serde_json::from_str(SCHEMA).unwrap();
    let mut seen = 0;
    typed("", &schema, &mut |path, typed| {
        let types = match &typed["type"] {
            Json::Array(all) => all.iter().filter_map(Json::as_str).collect(),
            one => vec![one.as_str().unwrap_or_default()],
        };
        // Of several that a value may be, another is the variable.
        let is_choice = path.contains("/oneOf/") || path.contains("/items");
        if types.iter().any(|name| ["integer", "number", "boolean"].contains(name)) && !is_choice {
            seen += 1;
            assert!(types.contains(&"string"), "{path}: {typed}");
        }
    });
    assert!(seen > 20, "{seen}");
    let text = "benchmark: {name: x, max_t: \"${N}\", repeats: \"${N}\", solo: \"${YES}\", log_level: \"${LEVEL}\",
  scheduler: {implementation: \"${SCHEDULER}\", rdt: \"${YES}\"}, data: {profilefrequency: \"${HUNDRED}\", perf: \"${YES}\"}}
a: {index: \"${N}\", command: \"sh -c '${TOKEN}'\", cpus: \"${N}\", priority: \"${N}\", critical: \"${YES}\"}
";
    let set = [
        ("N", "2"),
        ("YES", "true"),
        ("LEVEL", "debug"),
        ("SCHEDULER", "adaptive"),
        ("HUNDRED", "100"),
        ("TOKEN", "s3cret of mine"),
    ];
    let set = set.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let around = Surroundings {
        cpus: [0, 1].into_iter().collect(),
        path: vec!["/bin".into(), "/usr/bin".into()],
    };
    let read = Experiment::parse("e.yaml", text, &Variables::default().with(set), &around).unwrap();
    let container = &read.containers[0];
    assert_eq!((container.index, container.priority, container.cpu_limit), (2, 2, Some(2.0)));
    assert_eq!(container.command, ["sh", "-c", "s3cret of mine"]);
    assert_eq!(container.written, ["sh", "-c", "${TOKEN}"], "what is kept of it");
}

#[test]
fn any_text_is_read_without_a_panic() {
    const LETTERS: &[u8] = b"{}[]:,-\"'\n 0x$#&*";
    let mut random = fastrand::Rng::with_seed(5);
    for _ in 0..300 {
        let mut text = KNOWN.to_owned();
        for _ in 0..random.usize(1..6) {
            let at = random.usize(0..text.len());
            if text.is_char_boundary(at) {
                text.insert(at, LETTERS[random.usize(0..LETTERS.len())] as char);
            }
        }
        let _ = parse(&text);
    }
}

#[test]
fn what_a_file_says_of_rdt_holds_whichever_scheduler_is_taken_instead() {
    for (said, expected) in
        [("", [false, true]), (", rdt: false", [false; 2]), (", rdt: true", [true; 2])]
    {
        let text = format!(
            "benchmark: {{name: x, scheduler: {{implementation: default{said}}}}}\na: {{index: 0, command: sh}}\n"
        );
        let mut read = parse(&text).unwrap();
        let before = read.use_rdt;
        read.schedule_with(Offered::named("adaptive").unwrap()).unwrap();
        assert_eq!([before, read.use_rdt], expected, "{said}");
    }
}

#[test]
fn a_scheduler_that_works_by_resctrl_alone_is_not_denied_it() {
    let text = |word: &str| {
        format!(
            "benchmark:\n  name: x\n  scheduler:\n    implementation: {word}\n    rdt: false\na: {{index: 0, command: sh}}\n"
        )
    };
    let told = parse(&text("rdt")).unwrap_err();
    let expected = "5: benchmark.scheduler.rdt: is false, and scheduler rdt works by nothing else";
    assert!(told.len() == 1 && told[0].starts_with(expected), "{told:#?}");
    let mut read = parse(&text("adaptive")).unwrap();
    assert!(read.schedule_with(Offered::named("rdt").unwrap()).is_err(), "nor from outside");
}

#[test]
fn a_line_for_a_shell_goes_to_one_and_a_list_stays_as_it_is() {
    let command = |command: &str| {
        let text =
            format!("benchmark: {{name: x}}\na: {{index: 0, image: i, command: {command}}}\n");
        parse(&text).unwrap().containers.remove(0).command
    };
    assert_eq!(command("\"a; b\""), ["sh", "-c", "a; b"]);
    assert_eq!(command("[echo, \"a; b\"]"), ["echo", "a; b"]);
}

#[test]
fn rounds_that_a_signal_would_cut_off_are_a_mistake() {
    let wrong = parse("benchmark: {name: x, max_t: -1, repeats: 2}\na: {index: 0, command: sh}\n");
    assert!(wrong.unwrap_err()[0].contains("benchmark.repeats: has no meaning with max_t: -1"));
}
