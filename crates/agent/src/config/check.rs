//! What a type cannot say about a configuration.

use super::{Config, Period};
use crosstalk_settings::{Configuration, Fault};

impl Configuration for Config {
    fn follow(&mut self, is_set: &dyn Fn(&str) -> bool) {
        if !is_set("subjects.prometheus_limit") {
            let subjects = &mut self.subjects;
            subjects.prometheus_limit = subjects.prometheus_limit.min(subjects.limit);
        }
        let sampling = &mut self.sampling;
        if !is_set("sampling.fastest") {
            sampling.fastest = sampling.fastest.min(sampling.slowest);
        }
        if !is_set("sampling.retention") {
            sampling.retention = sampling.retention.max(sampling.two_samples());
        }
    }

    fn fault(&self) -> Option<Fault> {
        let own = self.first_fault().map(|(key, what)| Fault::new(key, what));
        own.or_else(|| self.http.fault("http"))
    }
}

impl Config {
    /// The first thing that cannot be, as its key and what is wrong with it.
    fn first_fault(&self) -> Option<(&'static str, String)> {
        let ms = Period::millis;
        let hour = ms(3_600_000);
        let sampling = &self.sampling;
        let ranges = [
            ("sampling.period", sampling.period, ms(1), ms(60_000)),
            ("sampling.fastest", sampling.fastest, ms(1), sampling.slowest),
            ("sampling.slowest", sampling.slowest, ms(1), ms(60_000)),
            ("subjects.period", self.subjects.period, ms(100), ms(60_000)),
            ("sources.pressure.period", self.sources.pressure.period, ms(100), ms(60_000)),
            ("sources.coldmem.period", self.sources.coldmem.period, ms(1_000), hour),
            ("sources.coldmem.age", self.sources.coldmem.age, ms(1_000), ms(86_400_000)),
            ("sources.pcm.interval", self.sources.pcm.interval, ms(100), ms(60_000)),
            ("recording.rotate_after", self.recording.rotate_after, ms(1_000), ms(86_400_000)),
        ];
        for (key, value, least, most) in ranges {
            if value < least || value > most {
                return Some((key, format!("{value} is not within {least} and {most}")));
            }
        }
        if let Err(fault) = self.sources.coldmem.choice() {
            return Some(fault);
        }
        if let Some(fault) = self.memory.fault().or_else(|| self.node_metric.fault()) {
            return Some(fault);
        }
        let least = sampling.two_samples();
        if sampling.retention < least || sampling.retention > hour {
            let what = format!(
                "{} is not within {least} (two samples) and {hour}; a window holds at least two",
                sampling.retention
            );
            return Some(("sampling.retention", what));
        }
        self.fault_of_shares().or_else(|| self.fault_of_counts()).or_else(|| self.fault_of_slots())
    }

    fn fault_of_shares(&self) -> Option<(&'static str, String)> {
        let shares = [
            ("sampling.budget", self.sampling.budget),
            ("sources.probe.cpu_share", self.sources.probe.cpu_share),
            ("sources.cache.cpu_share", self.sources.cache.cpu_share),
        ];
        shares.into_iter().find(|(_, share)| !(0.0001..=1.0).contains(share)).map(|(key, share)| {
            (key, format!("{share} is not a share of one core within 0.0001 and 1"))
        })
    }

    fn fault_of_counts(&self) -> Option<(&'static str, String)> {
        let counts = [
            ("subjects.limit", self.subjects.limit, 1..=100_000),
            ("subjects.prometheus_limit", self.subjects.prometheus_limit, 0..=self.subjects.limit),
        ];
        for (key, count, range) in counts {
            if !range.contains(&count) {
                let what = format!("{count} is not within {} and {}", range.start(), range.end());
                return Some((key, what));
            }
        }
        let format = &self.recording.format;
        let known = format.parse::<crosstalk_recording::Format>();
        known.err().map(|what| ("recording.format", what))
    }

    fn fault_of_slots(&self) -> Option<(&'static str, String)> {
        const KEY: &str = "sources.counters.slot";
        let slot = self.slot();
        if let Err(error) = crosstalk_model::SlotLength::from_nanos(slot.nanos()) {
            return Some((KEY, error.to_string()));
        }
        let sampling = &self.sampling;
        let pace = if sampling.adaptive { sampling.fastest } else { sampling.period };
        if slot > pace || !self.subjects.period.is_multiple_of(slot) {
            let periods = format!("{pace} and {}", self.subjects.period);
            return Some((KEY, format!("{slot} does not go into the periods {periods}")));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::SAMPLE;
    use super::*;
    use crosstalk_settings::{Loader, SettingsError};
    use std::path::Path;

    fn with_text(text: &str) -> Result<Config, SettingsError> {
        Ok(Loader::new("agent").text("agent.toml", text).load()?.config)
    }

    fn env(pairs: &[(&str, &str)]) -> Result<Config, SettingsError> {
        let pairs = pairs.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        Ok(Loader::new("agent").environment(pairs).load()?.config)
    }

    #[test]
    fn the_sample_says_exactly_the_defaults() {
        assert_eq!(with_text(SAMPLE).unwrap(), Config::default());
        assert_eq!(env(&[]).unwrap(), Config::default());
    }

    #[test]
    fn every_table_and_key_of_the_configuration_is_in_the_sample() {
        // The debug form names every field, so a field that was forgotten in the sample shows.
        let text = format!("{:?}", Config::default());
        let fields: Vec<&str> = text
            .split([' ', '{', ','])
            .filter_map(|word| word.strip_suffix(':'))
            .filter(|word| word.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'))
            .collect();
        assert!(fields.len() > 20, "{text}");
        for field in fields {
            assert!(SAMPLE.contains(&format!("\n{field} =")) || SAMPLE.contains(field), "{field}");
        }
    }

    #[test]
    fn what_is_printed_as_effective_can_be_read_again() {
        let text = "[sources.counters]\nslot = \"5ms\"\n[http]\nbearer_token = \"s3cret\"\n";
        let config = with_text(text).unwrap();
        let printed = crosstalk_settings::effective(&config).unwrap();
        assert!(!printed.contains("s3cret"), "{printed}");
        let again = with_text(&printed).unwrap();
        assert_eq!((again.sources, again.sampling), (config.sources, config.sampling));
    }

    #[test]
    fn an_error_names_file_and_line_whatever_its_kind() {
        for (text, line, word) in [
            ("\n[sampling]\nperiod = \"soon\"\n", 3, "length of time"),
            ("listen = \"127.0.0.1\"\n", 1, "socket address"),
            ("[sampling]\n\nperiods = \"1s\"\n", 3, "did you mean period?"),
            ("[http]\nconnections = 0\n", 2, "within 1 and 65536"),
            ("[sampling]\nperiod = \"20s\"\nretention = \"30s\"\n", 3, "two samples"),
            ("[sources.pcm]\nmode = \"maybe\"\n", 2, "none of auto, on, off"),
            ("a = = 1", 1, ""),
            ("[recording]\nformat = \"xls\"\n", 2, "csv"),
        ] {
            let error = with_text(text).unwrap_err().to_string();
            assert!(error.contains(&format!("agent.toml:{line}: ")), "{text}: {error}");
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    #[test]
    fn the_environment_wins_over_the_file_and_is_named_when_wrong() {
        let config = env(&[
            ("CROSSTALK_AGENT_SAMPLING_PERIOD", "500ms"),
            ("CROSSTALK_AGENT_HTTP_CONNECTIONS", "7"),
            ("CROSSTALK_AGENT_SOURCES_PCM_ARGS", "[\"1\", \"-csv\"]"),
            ("CROSSTALK_AGENT_SERVICE_HOST", "10.0.0.1"),
        ])
        .unwrap();
        assert_eq!(config.sampling.period, Period::millis(500));
        assert_eq!(config.http.connections, 7);
        assert_eq!(config.sources.pcm.args, ["1", "-csv"]);
        for (name, value) in
            [("CROSSTALK_AGENT_SAMPLING_PERIOD", "x"), ("CROSSTALK_AGENT_SUBJECTS_LIMIT", "0")]
        {
            let error = env(&[(name, value)]).unwrap_err().to_string();
            assert!(error.starts_with(name), "{error}");
        }
    }

    #[test]
    fn text_from_the_environment_is_text_whatever_it_looks_like() {
        let config = env(&[
            ("CROSSTALK_AGENT_RECORDING_OUT", "2026"),
            ("CROSSTALK_AGENT_SOURCES_PCM_COMMAND", "true"),
            ("CROSSTALK_AGENT_RECORDING_FORMAT", "\"csv\""),
        ])
        .unwrap();
        assert_eq!(config.recording.out, Path::new("2026"));
        assert_eq!(config.sources.pcm.command, "true");
        assert_eq!(config.recording.format, "csv");
    }

    #[test]
    fn defaults_go_along_with_what_was_set_and_what_was_set_does_not() {
        assert_eq!(with_text("[subjects]\nlimit = 10\n").unwrap().subjects.prometheus_limit, 10);
        let slow = with_text("[sampling]\nperiod = \"20s\"\n").unwrap();
        assert_eq!(slow.sampling.retention, Period::millis(40_000));
        let hasty = with_text("[sampling]\nslowest = \"50ms\"\n").unwrap();
        assert_eq!(hasty.sampling.fastest, Period::millis(50));
        let odd = with_text("[subjects]\nperiod = \"150ms\"\n").unwrap();
        assert_eq!(odd.slot(), Period::millis(1));
        let both = with_text("[subjects]\nlimit = 10\nprometheus_limit = 20\n");
        assert!(both.unwrap_err().to_string().contains("agent.toml:3: subjects.prometheus_limit"));
    }

    #[test]
    fn slots_follow_the_pace_and_the_recording() {
        assert_eq!(Config::default().slot(), Period::millis(20));
        let recording = with_text("[recording]\nout = \"x\"\n").unwrap();
        assert_eq!(recording.slot(), Period::millis(1));
        let fast = with_text("[sampling]\nperiod = \"1ms\"\n").unwrap();
        assert_eq!(fast.slot(), Period::millis(1));
        let odd = with_text("[sources.counters]\nslot = \"300ms\"\n").unwrap_err().to_string();
        assert!(odd.contains("agent.toml:2: sources.counters.slot"), "{odd}");
    }
}
