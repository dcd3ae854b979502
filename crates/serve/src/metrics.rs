//! What a service says of its own listener.

use crate::exposition::Families;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// Upper bounds in seconds.
const BOUNDS: [f64; 12] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.25, 1.0, f64::INFINITY];
/// Statuses told apart; the rest is counted by class.
const CODES: [u16; 16] =
    [200, 202, 204, 400, 401, 403, 404, 405, 413, 415, 422, 429, 431, 500, 502, 503];
const CLASSES: [&str; 3] = ["2xx", "4xx", "5xx"];

const fn class(status: u16) -> usize {
    match status {
        ..400 => 0,
        400..500 => 1,
        _ => 2,
    }
}

/// How the families are called.
#[derive(Clone, Copy, Debug)]
pub struct Names {
    /// What they begin with, such as `crosstalk_agent_http`.
    pub prefix: &'static str,
    /// The family of answers, without `_total`.
    pub requests: &'static str,
    /// The label that says which route.
    pub route: &'static str,
    /// Whether `code` is the status itself, rather than its class.
    pub exact_codes: bool,
}

/// A fixed set of counters, so that no client can make labels, and no request waits for a lock.
#[derive(Debug)]
pub struct ServerMetrics {
    names: Names,
    routes: Vec<Route>,
    pub(crate) open: AtomicUsize,
    pub(crate) refused: AtomicU64,
    pub(crate) accept_errors: AtomicU64,
    pub(crate) throttled: AtomicU64,
    pub(crate) denied: AtomicU64,
}

#[derive(Debug, Default)]
struct Route {
    template: &'static str,
    label: &'static str,
    codes: [AtomicU64; CODES.len()],
    others: [AtomicU64; CLASSES.len()],
    buckets: [AtomicU64; BOUNDS.len()],
    sum_ns: AtomicU64,
}

/// In a response's extensions: counts it under this label in place of its route's.
#[derive(Clone, Copy, Debug)]
pub struct CountAs(pub &'static str);

impl ServerMetrics {
    /// For these routes, each with its label; what matches none is `other`.
    #[must_use]
    pub fn new(names: Names, routes: &[(&'static str, &'static str)]) -> Self {
        let route = |&(template, label): &(&'static str, &'static str)| Route {
            template,
            label,
            ..Route::default()
        };
        let mut routes: Vec<Route> = routes.iter().map(route).collect();
        routes.push(Route { label: "other", ..Route::default() });
        Self {
            names,
            routes,
            open: AtomicUsize::new(0),
            refused: AtomicU64::new(0),
            accept_errors: AtomicU64::new(0),
            throttled: AtomicU64::new(0),
            denied: AtomicU64::new(0),
        }
    }

    /// Requests refused because there were too many in work.
    #[must_use]
    pub fn throttled(&self) -> u64 {
        self.throttled.load(Relaxed)
    }

    /// Where the answers of a route are counted.
    pub(crate) fn route(&self, template: Option<&str>) -> usize {
        let found = template.and_then(|t| self.routes.iter().position(|r| r.template == t));
        found.unwrap_or(self.routes.len() - 1)
    }

    pub(crate) fn count(&self, at: usize, label: Option<CountAs>, status: u16, took: Duration) {
        let labelled = label.and_then(|l| self.routes.iter().find(|route| route.label == l.0));
        let route = labelled.unwrap_or(&self.routes[at]);
        match CODES.iter().position(|code| *code == status) {
            Some(code) => route.codes[code].fetch_add(1, Relaxed),
            None => route.others[class(status)].fetch_add(1, Relaxed),
        };
        let bucket = BOUNDS.partition_point(|bound| *bound < took.as_secs_f64());
        route.buckets[bucket].fetch_add(1, Relaxed);
        route.sum_ns.fetch_add(took.as_nanos() as u64, Relaxed);
    }

    /// Writes every family.
    ///
    /// # Errors
    /// If the text cannot be written.
    pub fn write(&self, families: &mut Families<'_>) -> fmt::Result {
        let Names { prefix, requests, .. } = self.names;
        self.write_requests(families, requests)?;
        let name = format!("{prefix}_request_duration_seconds");
        let help = "Time from a request's arrival to its answer being ready.";
        let mut family = families.histograms(&name, help)?;
        for route in self.by_label() {
            let counts = std::array::from_fn::<_, { BOUNDS.len() }, _>(|i| {
                (BOUNDS[i], route.iter().map(|r| r.buckets[i].load(Relaxed)).sum())
            });
            let sum_ns: u64 = route.iter().map(|r| r.sum_ns.load(Relaxed)).sum();
            if self.names.exact_codes && counts.iter().all(|(_, count)| *count == 0) {
                continue;
            }
            family.histogram(
                &[(self.names.route, route[0].label)],
                sum_ns as f64 * 1e-9,
                &counts,
            )?;
        }
        let open = self.open.load(Relaxed) as f64;
        families.gauge(&format!("{prefix}_connections"), "Connections open now.", open)?;
        for (name, help, sum) in [
            (
                "connections_refused",
                "Connections turned away because there were too many.",
                &self.refused,
            ),
            ("accept_errors", "Connections the system could not hand over.", &self.accept_errors),
            ("throttled", "Requests told 429 because too many were in work.", &self.throttled),
            ("denied", "Requests without the token or certificate they need.", &self.denied),
        ] {
            families.counter(&format!("{prefix}_{name}"), help, sum.load(Relaxed) as f64)?;
        }
        Ok(())
    }

    fn write_requests(&self, families: &mut Families<'_>, requests: &str) -> fmt::Result {
        let Names { route: key, exact_codes, .. } = self.names;
        let mut family = families.counters(requests, "Requests answered, by route and status.")?;
        let sum = |routes: &[&Route], count: &dyn Fn(&Route) -> u64| -> f64 {
            routes.iter().map(|route| count(route)).sum::<u64>() as f64
        };
        for routes in self.by_label() {
            let label = routes[0].label;
            for (class_at, class_name) in CLASSES.iter().enumerate() {
                let known = |route: &Route| -> u64 {
                    let of_class =
                        CODES.iter().zip(&route.codes).filter(|(c, _)| class(**c) == class_at);
                    of_class.map(|(_, count)| count.load(Relaxed)).sum()
                };
                let others = |route: &Route| route.others[class_at].load(Relaxed);
                let shown = sum(&routes, &|r| others(r) + if exact_codes { 0 } else { known(r) });
                if !exact_codes || shown > 0.0 {
                    family.counter(&[(key, label), ("code", class_name)], shown)?;
                }
            }
            for (at, code) in CODES.iter().enumerate().filter(|_| exact_codes) {
                let count = sum(&routes, &|route| route.codes[at].load(Relaxed));
                if count > 0.0 {
                    family.counter(&[(key, label), ("code", &code.to_string())], count)?;
                }
            }
        }
        Ok(())
    }

    /// Routes that share a label are one series.
    fn by_label(&self) -> Vec<Vec<&Route>> {
        let mut groups: Vec<Vec<&Route>> = Vec::new();
        for route in &self.routes {
            match groups.iter_mut().find(|group| group[0].label == route.label) {
                Some(group) => group.push(route),
                None => groups.push(vec![route]),
            }
        }
        groups
    }
}
