//! The shell on a terminal, as somebody who types.

use crate::support::*;
use crosstalk_recording::Format;
use std::fs;
use std::process::Command;

/// Types at a terminal of its own and prints what is shown there; ends the program in the middle, as a closed window does.
const TYPE: &str = r#"
import os, pty, select, signal, sys, time
pid, terminal = pty.fork()
if pid == 0:
    os.execv(sys.argv[1], sys.argv[1:])
shown = b""
def until(text):
    global shown
    end = time.monotonic() + 120
    while text not in shown:
        if not select.select([terminal], [], [], max(end - time.monotonic(), 0))[0]:
            sys.exit(f"no {text} in: {shown.decode(errors='replace')}")
        try:
            shown += os.read(terminal, 65536)
        except OSError:
            sys.exit(f"it ended before {text}: {shown.decode(errors='replace')}")
    before, shown = shown.split(text, 1)
    print((before + text).decode(errors="replace"))
def type_in(text):
    os.write(terminal, text)
until(b"crosstalk> ")
type_in(b"SELECT count(*) AS counted FROM per_sec\t")
until(b"per_second")
type_in(b" WHERE comm = 'victim';\r")
until(b"| counted |")
until(b"1 rows")
until(b"crosstalk> ")
type_in(b"\\f parquet\r")
until(b"Parquet is nothing for a terminal")
until(b"crosstalk> ")
type_in(b"SELECT sum(a.pid * b.pid + c.pid) FROM tasks a, tasks b, tasks c;\r")
until(b"rows read")
type_in(b"\x03")
until(b"stopped after ")
until(b"crosstalk> ")
type_in(b"SELECT 40 + 2 AS still;\r")
until(b"| 42 ")
until(b"crosstalk> ")
os.kill(pid, signal.SIGKILL)
os.waitpid(pid, 0)
"#;

#[test]
fn a_name_is_completed_a_query_is_stopped_and_history_outlives_a_shell_that_is_killed() {
    let (out, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    simulate(out.path(), 1, 2, Format::Parquet);
    let typed = Command::new(tool("python"))
        .args(["-c", TYPE])
        .arg(program().get_program())
        .arg("sql")
        .arg(out.path())
        .env("XDG_STATE_HOME", home.path())
        .env("TERM", "xterm")
        .output()
        .unwrap();
    assert!(typed.status.success(), "{}", String::from_utf8_lossy(&typed.stderr));
    let history = fs::read_to_string(home.path().join("crosstalk/sql_history")).unwrap();
    let lines: Vec<&str> = history.lines().collect();
    for line in [
        "SELECT count(*) AS counted FROM per_second WHERE comm = 'victim';",
        "SELECT sum(a.pid * b.pid + c.pid) FROM tasks a, tasks b, tasks c;",
        "SELECT 40 + 2 AS still;",
    ] {
        assert_eq!(lines.iter().filter(|one| **one == line).count(), 1, "{line}: {history}");
    }
}
