//! Records as the log stores want them: Loki's push API and Elasticsearch's bulk API, which VictoriaLogs takes too.

use std::collections::BTreeMap;
use std::io::Write;

use bytes::Bytes;
use serde_json::json;

use super::document_id::DocumentIds;
use crate::config::{LogForward, LogStore};
use crate::logs::record::Record;
use crate::logs::workload::Owner;

/// Bytes of one body before compression: well below what log stores take at once.
const BODY_BYTES: usize = 1 << 20;

/// A body on its way to a log store, compressed with gzip.
#[derive(Debug, Clone)]
pub(crate) struct LogBody {
    /// Lines inside.
    pub(crate) lines: u32,
    pub(crate) bytes: Bytes,
}

/// Bodies for one log store while a request is read.
#[derive(Debug)]
pub(in crate::logs) struct Encoder {
    store: LogStore,
    index: String,
    ids: DocumentIds,
    /// Loki: lines by their labels. Elasticsearch: one text.
    parts: BTreeMap<String, String>,
    size: usize,
    lines: u32,
    bodies: Vec<LogBody>,
}

impl Encoder {
    pub(in crate::logs) fn new(forward: &LogForward) -> Encoder {
        Encoder {
            store: forward.kind,
            index: forward.index.clone(),
            ids: DocumentIds::default(),
            parts: BTreeMap::new(),
            size: 0,
            lines: 0,
            bodies: Vec::new(),
        }
    }

    /// Adds a record, once for each workload it is of.
    pub(in crate::logs) fn add(&mut self, record: &Record<'_>, owners: &[Owner]) {
        match owners {
            [] => self.add_of(record, None),
            owners => owners.iter().for_each(|owner| self.add_of(record, Some(owner))),
        }
    }

    fn add_of(&mut self, record: &Record<'_>, owner: Option<&Owner>) {
        let (key, text) = match self.store {
            LogStore::Loki => (labels(record, owner), value(record)),
            LogStore::Elasticsearch => (String::new(), self.document(record, owner)),
        };
        let part = self.parts.entry(key).or_default();
        if self.store == LogStore::Loki && !part.is_empty() {
            part.push(',');
        }
        part.push_str(&text);
        self.size += text.len();
        self.lines += 1;
        if self.size >= BODY_BYTES {
            self.finish_body();
        }
    }

    /// The bodies, of which none is left.
    pub(in crate::logs) fn finish(mut self) -> Vec<LogBody> {
        self.finish_body();
        self.bodies
    }

    fn finish_body(&mut self) {
        if self.lines == 0 {
            return;
        }
        let parts = std::mem::take(&mut self.parts);
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        // Writing to memory cannot fail.
        let written = match self.store {
            LogStore::Loki => {
                let stream = |(labels, values): (&String, &String)| {
                    format!("{{\"stream\":{labels},\"values\":[{values}]}}")
                };
                let streams: Vec<String> = parts.iter().map(stream).collect();
                write!(packed, "{{\"streams\":[{}]}}", streams.join(","))
            }
            LogStore::Elasticsearch => {
                parts.values().try_for_each(|text| packed.write_all(text.as_bytes()))
            }
        };
        let bytes = written.and_then(|()| packed.finish()).unwrap_or_default();
        self.bodies.push(LogBody { lines: self.lines, bytes: Bytes::from(bytes) });
        (self.size, self.lines) = (0, 0);
    }

    /// An action and its document.
    fn document(&mut self, record: &Record<'_>, owner: Option<&Owner>) -> String {
        let pod = &record.kubernetes;
        let labels: BTreeMap<&str, &str> =
            pod.labels.iter().map(|(name, value)| (&**name, &**value)).collect();
        let id = self.ids.next(record, owner);
        let action = json!({"create": {"_index": self.index, "_id": id}});
        let mut document = json!({
            "@timestamp": time(record.at),
            "message": record.message,
            "stream": record.stream,
            "kubernetes": {
                "namespace_name": pod.namespace_name, "pod_name": pod.pod_name, "pod_id": pod.pod_id,
                "host": pod.host, "container_name": pod.container_name, "labels": labels,
            },
        });
        if let Some(owner) = owner {
            let (group_name, group_uid) = owner.group();
            document["workload_group_name"] = json!(group_name);
            document["workload_group_uid"] = json!(group_uid);
            document["workload_name"] = json!(owner.name);
            document["workload_uid"] = json!(owner.uid);
            document["pod_uid"] = json!(owner.pod_uid);
        }
        format!("{action}\n{document}\n")
    }
}

/// The labels of a record's stream, as JSON; what is not known is left out.
fn labels(record: &Record<'_>, owner: Option<&Owner>) -> String {
    let pod = &record.kubernetes;
    let (name, uid) = owner.map_or(("", ""), |owner| (&*owner.name, &*owner.uid));
    let (group_name, group_uid) = owner.map_or(("", ""), Owner::group);
    let all = [
        ("container", &*pod.container_name),
        ("namespace", &*pod.namespace_name),
        ("node", &*pod.host),
        ("pod", &*pod.pod_name),
        ("stream", &*record.stream),
        ("workload_group_name", group_name),
        ("workload_group_uid", group_uid),
        ("workload_name", name),
        ("workload_uid", uid),
    ];
    let known: BTreeMap<&str, &str> = all.into_iter().filter(|(_, v)| !v.is_empty()).collect();
    match known.is_empty() {
        // Loki takes no stream without a label.
        true => json!({"job": "crosstalk-processor"}).to_string(),
        false => json!(known).to_string(),
    }
}

fn value(record: &Record<'_>) -> String {
    json!([record.at.to_string(), record.message]).to_string()
}

fn time(at: i64) -> String {
    let time = jiff::Timestamp::from_nanosecond(i128::from(at)).unwrap_or_default();
    time.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crosstalk_store::Group;
    use serde_json::Value;
    use std::io::Read;

    fn text(body: &LogBody) -> String {
        let mut text = String::new();
        flate2::read::GzDecoder::new(&body.bytes[..]).read_to_string(&mut text).unwrap();
        text
    }

    fn encode(store: LogStore, records: &[(&str, &[Owner])]) -> Vec<LogBody> {
        let mut encoder =
            Encoder::new(&LogForward { kind: store, ..LogForward::new("x", "http://x") });
        for (json, owners) in records {
            encoder.add(&Record::read(json).unwrap(), owners);
        }
        encoder.finish()
    }

    fn owner(name: &str) -> Owner {
        let group = Group { uid: "top-uid".into(), name: Some("top".into()), kind: None };
        let (uid, pod_uid) = (format!("{name}-uid"), "p".to_owned());
        Owner { uid, name: name.to_owned(), pod_uid, group: Some(group), ..Owner::default() }
    }

    const RECORD: &str = r#"{"date": 1735689600.000000001, "log": "say \"hi\"\n", "stream": "stderr",
        "kubernetes": {"pod_name": "p-0", "namespace_name": "ml", "labels": {"a": "b"}}}"#;

    #[test]
    fn loki_gets_streams_by_labels_with_exact_times() {
        let other = r#"{"date": 1735689601, "log": "x"}"#;
        let owners = [owner("w"), owner("v")];
        let bodies =
            encode(LogStore::Loki, &[(RECORD, &owners), (RECORD, &owners[..1]), (other, &[])]);
        assert_eq!((bodies.len(), bodies[0].lines), (1, 4));
        let body: Value = serde_json::from_str(&text(&bodies[0])).unwrap();
        let streams = body["streams"].as_array().unwrap();
        assert_eq!(streams.len(), 3);
        let ours = streams.iter().find(|s| s["stream"]["workload_name"] == "w").unwrap();
        assert_eq!(
            ours["stream"],
            json!({"namespace": "ml", "pod": "p-0", "stream": "stderr", "workload_group_name": "top",
                   "workload_group_uid": "top-uid", "workload_name": "w", "workload_uid": "w-uid"})
        );
        assert_eq!(ours["values"][0], json!(["1735689600000000001", "say \"hi\"\n"]));
        assert_eq!(ours["values"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn elasticsearch_gets_an_action_and_a_document_a_record() {
        let bodies = encode(LogStore::Elasticsearch, &[(RECORD, &[owner("w")]), (RECORD, &[])]);
        let text = text(&bodies[0]);
        let lines: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((lines.len(), text.ends_with('\n')), (4, true));
        assert_eq!(lines[0]["create"]["_index"], "crosstalk-logs");
        assert_ne!(lines[0]["create"]["_id"], lines[2]["create"]["_id"]);
        assert_eq!(lines[1]["@timestamp"], "2025-01-01T00:00:00.000000001Z");
        assert_eq!(lines[1]["workload_uid"], "w-uid");
        assert_eq!(lines[1]["kubernetes"]["labels"], json!({"a": "b"}));
        assert!(lines[3].get("workload_uid").is_none());
    }

    #[test]
    fn a_request_that_comes_again_is_the_same_documents_and_no_two_lines_are_one() {
        let later = RECORD.replace("600.000000001", "600.000000002");
        let stdout = RECORD.replace("stderr", "stdout");
        let other_pod = RECORD.replace("p-0", "p-1");
        let owners = [owner("w"), owner("v")];
        let records: [(&str, &[Owner]); 5] = [
            (RECORD, &owners),
            (RECORD, &owners),
            (&later, &owners),
            (&stdout, &owners),
            (&other_pod, &owners),
        ];
        let ids = || -> Vec<String> {
            let text = text(&encode(LogStore::Elasticsearch, &records)[0]);
            let actions = text.lines().step_by(2);
            let id =
                |line| serde_json::from_str::<Value>(line).unwrap()["create"]["_id"].to_string();
            actions.map(id).collect()
        };
        assert_eq!(ids(), ids());
        let mut once = ids();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), 10);
    }

    #[test]
    fn a_large_request_becomes_several_bodies() {
        let long = format!(r#"{{"date": 1735689600, "log": "{}"}}"#, "x".repeat(300 << 10));
        let records: Vec<(&str, &[Owner])> = (0..10).map(|_| (long.as_str(), &[][..])).collect();
        let bodies = encode(LogStore::Loki, &records);
        assert_eq!(bodies.iter().map(|body| body.lines).collect::<Vec<_>>(), [4, 4, 2]);
        assert!(encode(LogStore::Loki, &[]).is_empty());
    }
}
