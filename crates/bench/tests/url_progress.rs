//! A workload that says what it got done at an address, as Prometheus would read it.
#![allow(clippy::unwrap_used)]

mod support;

use crosstalk_bench::result::{Recorded, summarize};
use std::net::TcpListener;
use support::{Bench, PLAIN, can_make_cgroups};

/// Serves a page of metrics on which `work_done` grows by a hundred a second since it began.
const SERVER: &str = r##"
import http.server, sys, time
began = time.time()
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        done = (time.time() - began) * 100
        body = ('# HELP work_done Units of work_done so far.\n# TYPE work_done counter\n'
                'other_work_done 7\nwork_done{kind="a}b"} %f\n' % done).encode()
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer.allow_reuse_address = True
http.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), Page).serve_forever()
"##;

#[test]
fn progress_at_an_address_has_a_slowdown_over_repeated_rounds() {
    if !can_make_cgroups() {
        return;
    }
    let bench = Bench::new();
    let script = bench.folder.path().join("server.py");
    std::fs::write(&script, SERVER).unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let text = format!(
        "benchmark: {{name: url, max_t: 4, repeats: 2, {PLAIN}}}
a: {{index: 0, command: [/usr/bin/python3, {script:?}, \"{free}\"], \
     progress: {{url: \"http://127.0.0.1:{free}/metrics\", after: work_done}}}}
b: {{index: 1, command: sleep 60, start: 2.2}}
"
    );
    let (dir, record) = bench.run(&text).unwrap();
    let recorded = Recorded::read(&dir, &record).unwrap();
    for pair in recorded.progress.windows(2) {
        assert!(pair[0].round <= pair[1].round, "rounds interleave: {:?}", recorded.progress);
    }
    let summary = summarize(&dir, &record).unwrap();
    let fared = &summary.containers[0].fared;
    let [alone, beside] = &fared[..] else { panic!("{fared:?} of {:?}", recorded.progress) };
    assert_eq!((alone.rounds, beside.rounds), (2, 2), "{fared:?}");
    assert!((alone.rate.value - 100.0).abs() < 30.0, "{fared:?}");
    let slowdown = beside.slowdown.as_ref().unwrap().value;
    assert!(slowdown.abs() < 0.3, "{fared:?}");
}
