//! The counters of `/metrics`, and bounds on what a crowd adds to them.

use std::collections::{BTreeMap, BTreeSet};

use wisp_tests::server::Server;

/// The metrics that are compared: counters, and the numbers of measured requests and texts.
const COUNTED: [&str; 5] = [
    "wisp_requests_total",
    "wisp_request_duration_seconds_count",
    "wisp_prompt_tokens_total",
    "wisp_generated_tokens_total",
    "wisp_time_to_first_token_seconds_count",
];

/// The metrics that are zero when nothing runs.
const GAUGES: [&str; 3] = [
    "wisp_texts_running",
    "wisp_texts_queued",
    "wisp_kv_cache_use",
];

/// The endpoints that the test itself asks again and again.
const OWN: [&str; 2] = ["endpoint=\"/metrics\"", "endpoint=\"/health\""];

/// Values of metrics, by their name and labels.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    counted: BTreeMap<String, f64>,
    gauges: BTreeMap<String, f64>,
}

impl Counters {
    /// Reads the metrics of a server.
    pub fn read(server: &Server) -> Counters {
        let mut counters = Counters::default();
        for line in server.get("/metrics").body.lines() {
            let Some((name, value)) = line.rsplit_once(' ') else {
                continue;
            };
            let is = |names: &[&str]| {
                names
                    .iter()
                    .any(|known| name.split('{').next() == Some(known))
            };
            let values = match () {
                () if OWN.iter().any(|own| name.contains(own)) => continue,
                () if is(&COUNTED) => &mut counters.counted,
                () if is(&GAUGES) => &mut counters.gauges,
                () => continue,
            };
            values.insert(name.into(), value.parse().expect("a number"));
        }
        assert!(!counters.gauges.is_empty(), "no gauges");
        counters
    }

    /// Returns what was counted since an earlier look, and the gauges of now.
    pub fn since(&self, earlier: &Counters) -> Counters {
        let mut since = self.clone();
        for (name, value) in &mut since.counted {
            *value -= earlier.counted.get(name).copied().unwrap_or(0.0);
        }
        since.counted.retain(|_, value| *value != 0.0);
        since
    }

    /// Returns the sum of a metric over all labels.
    pub fn sum(&self, name: &str) -> f64 {
        let own = self
            .counted
            .iter()
            .filter(|(found, _)| found.split('{').next() == Some(name));
        own.map(|(_, value)| value).sum()
    }

    /// Returns the number of requests.
    pub fn requests(&self) -> f64 {
        self.sum("wisp_requests_total")
    }

    /// Returns whether all gauges are zero.
    pub fn is_idle(&self) -> bool {
        self.gauges.values().all(|value| *value == 0.0)
    }
}

/// What a crowd adds to the counters, at least and at most.
#[derive(Debug, Default)]
pub struct Bounds {
    least: BTreeMap<String, f64>,
    most: BTreeMap<String, f64>,
    requests: f64,
}

/// Returns the names under which a request may be counted that its client did not wait for.
fn requests_with(name: &str, statuses: &[&str]) -> Vec<String> {
    match name.split_once("status=\"") {
        Some((begin, _)) => statuses
            .iter()
            .map(|status| format!("{begin}status=\"{status}\"}}"))
            .collect(),
        None => vec![name.into()],
    }
}

impl Bounds {
    /// Adds a request whose answer has come.
    pub fn add(&mut self, cost: &Counters) {
        self.requests += cost.requests();
        for (name, value) in &cost.counted {
            *self.least.entry(name.clone()).or_default() += value;
            *self.most.entry(name.clone()).or_default() += value;
        }
    }

    /// Adds a request whose client went away.
    pub fn add_cancelled(&mut self, cost: &Counters) {
        self.add_uncertain(cost, &["200", "499"]);
    }

    /// Adds a request whose client went away before all of the body was sent.
    pub fn add_cut_off(&mut self, cost: &Counters) {
        self.add_uncertain(cost, &["400", "499"]);
    }

    fn add_uncertain(&mut self, cost: &Counters, statuses: &[&str]) {
        self.requests += cost.requests();
        for (name, value) in &cost.counted {
            for name in requests_with(name, statuses) {
                *self.most.entry(name).or_default() += value;
            }
        }
    }

    /// Adds those of another client.
    pub fn merge(&mut self, other: Bounds) {
        self.requests += other.requests;
        for (all, own) in [(&mut self.least, other.least), (&mut self.most, other.most)] {
            for (name, value) in own {
                *all.entry(name).or_default() += value;
            }
        }
    }

    /// Returns whether all requests are counted.
    pub fn has_all(&self, counters: &Counters) -> bool {
        counters.requests() == self.requests
    }

    /// Checks that the counters lie within the bounds.
    pub fn check(&self, counters: &Counters) {
        let names: BTreeSet<&String> = counters.counted.keys().chain(self.least.keys()).collect();
        for name in names {
            let of = |values: &BTreeMap<String, f64>| values.get(name).copied().unwrap_or(0.0);
            let (found, least, most) = (of(&counters.counted), of(&self.least), of(&self.most));
            assert!(
                (least..=most).contains(&found),
                "{name}: {found}, not {least} to {most}"
            );
        }
        let durations = counters.sum("wisp_request_duration_seconds_count");
        assert_eq!(durations, counters.requests(), "requests with a duration");
    }
}
