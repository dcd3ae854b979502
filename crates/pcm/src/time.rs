/// The date and time PCM prints: local, with no zone, so no instant. Only differences are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LocalTime {
    /// Days since 1970-01-01 by the local calendar.
    pub day: i64,
    /// Milliseconds since local midnight.
    pub millisecond: u32,
}

impl LocalTime {
    /// Reads `YYYY-MM-DD` and `HH:MM:SS` with up to three decimals.
    pub(crate) fn parse(date: &str, time: &str) -> Option<Self> {
        let mut date = date.trim().splitn(3, '-').map(|part| part.parse::<i64>().ok());
        let (year, month, day) = (date.next()??, date.next()??, date.next()??);
        if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day)
        {
            return None;
        }
        let mut time = time.trim().splitn(3, ':');
        let (hour, minute) = (number(time.next()?, 23)?, number(time.next()?, 59)?);
        let seconds = time.next()?;
        let (second, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
        let (second, fraction) = (number(second, 60)?, milliseconds(fraction)?);
        let millisecond = ((hour * 60 + minute) * 60 + second) * 1000 + fraction;
        Some(Self { day: days_from_civil(year, month, day), millisecond })
    }

    /// Seconds from `earlier` to this; negative if the clock was set back between.
    #[must_use]
    pub fn seconds_since(&self, earlier: &Self) -> f64 {
        let days = (self.day - earlier.day) as f64 * 86_400.0;
        days + (f64::from(self.millisecond) - f64::from(earlier.millisecond)) / 1000.0
    }
}

fn number(text: &str, most: u32) -> Option<u32> {
    text.parse().ok().filter(|number| *number <= most)
}

fn milliseconds(fraction: &str) -> Option<u32> {
    let digits: String = fraction.chars().chain("000".chars()).take(3).collect();
    number(&digits, 999)
}

/// Days since 1970-01-01 of a Gregorian date: years begin in March, so that the leap day is last.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year * 365 + year / 4 - year / 100 + year / 400 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_count_from_the_epoch_over_leap_years() {
        let day = |text| LocalTime::parse(text, "00:00:00.0").map(|time| time.day);
        assert_eq!(day("1970-01-01"), Some(0));
        assert_eq!(day("2000-02-29"), Some(11_016));
        assert_eq!(day("2000-03-01"), Some(11_017));
        assert_eq!(day("2026-11-02"), Some(20_759));
    }

    #[test]
    fn a_difference_spans_midnight() {
        let before = LocalTime::parse("2026-12-31", "23:59:59.750").unwrap();
        let after = LocalTime::parse("2027-01-01", "00:00:00.75").unwrap();
        assert_eq!(after.seconds_since(&before), 1.0);
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for (date, time) in [
            ("2026-13-01", "00:00:00.1"),
            ("garbage", "00:00:00.1"),
            ("2026-01-01", "25:00:00.1"),
            ("2026-01-01", "10:00"),
            ("2026-01-01", "10:00:-1.0"),
        ] {
            assert_eq!(LocalTime::parse(date, time), None, "{date} {time}");
        }
    }
}
