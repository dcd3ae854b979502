//! Who slows whom, while it happens.

use crate::client::get;
use crate::process::{Agent, until};
use crosstalk_host::CoreTime;
use serde_json::Value;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How soon a culprit is to be named while it runs.
const PROMISED: Duration = Duration::from_secs(30);

/// Time that a hypervisor ran somebody else on cores that wanted to run: nobody can be judged by that.
fn stolen() -> Duration {
    let stat = std::fs::read_to_string("/proc/stat").expect("Linux has it");
    Duration::from_nanos(CoreTime::parse(&stat).iter().filter_map(|core| core.stolen_ns).sum())
}

/// A built-in load that ends with the test.
struct Load(Child);

impl Load {
    fn start(args: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_crosstalk"));
        Self(command.arg("workload").args(args).stdout(Stdio::null()).spawn().unwrap())
    }

    /// As a load of this kind is called in verdicts.
    fn name(&self, kind: &str) -> String {
        format!("{kind} ({})", self.0.id())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Two that want one core: the one contention that every machine has. The victim would need a third of it.
#[test]
fn who_takes_a_core_from_whom_is_said_by_name_while_it_runs() {
    let agent = Agent::start("[verdicts]\nsubject = \"process\"\n");
    let victim = Load::start(&["chase", "--bytes", "1MiB", "--core", "0", "--rest", "2ms"]);
    let hog = Load::start(&["compute", "--core", "0"]);
    let (loses, takes) = (victim.name("chase"), hog.name("compute"));
    let (began, stolen_before) = (Instant::now(), stolen());
    let mut answer = Value::Null;
    let found = |verdict: &Value| {
        verdict["victim"] == loses
            && verdict["aggressor"] == takes
            && verdict["resource"] == "cpu time"
    };
    until(|| {
        answer = get(agent.address, "/verdicts").json();
        answer["verdicts"].as_array().is_some_and(|all| all.iter().any(found))
    })
    .unwrap_or_else(|()| panic!("never said: {answer:#}"));
    let (took, stolen) = (began.elapsed(), stolen().saturating_sub(stolen_before));
    assert!(took <= PROMISED + stolen, "it took {took:?}, of which {stolen:?} was stolen");
    let verdict = answer["verdicts"].as_array().unwrap().iter().find(|one| found(one)).unwrap();
    let number = |key: &str| verdict[key].as_f64().unwrap_or_else(|| panic!("{key}: {verdict:#}"));
    assert!(number("low") <= number("slowdown") && number("slowdown") <= number("high"));
    assert!(number("lost_seconds") > 0.0 && number("from_ns") < number("to_ns"), "{verdict:#}");
    assert!(answer["looked_at"].as_f64() > Some(1.7e9), "{answer:#}");
    assert_eq!((&answer["subject"], &answer["window_seconds"]), (&"process".into(), &60.into()));

    let text = get(agent.address, "/metrics").body;
    let sum = text.lines().find(|line| {
        line.starts_with("crosstalk_lost_seconds_total{")
            && line.contains(&format!("victim=\"{loses}\""))
            && line.contains(&format!("aggressor=\"{takes}\""))
    });
    let sum: f64 =
        sum.unwrap_or_else(|| panic!("{text}")).rsplit(' ').next().unwrap().parse().unwrap();
    assert!(sum > 0.0, "{sum}");
}

#[test]
fn verdicts_that_are_switched_off_are_not_found_and_the_answer_says_how_to_have_them() {
    let agent = Agent::start("[verdicts]\nenabled = false\n");
    let answer = get(agent.address, "/verdicts");
    assert_eq!(answer.status, 404);
    assert!(answer.body.contains("verdicts.enabled = true"), "{}", answer.body);
}
