use crate::columns::Group;
use crate::series::Point;

/// The points with exposures that rise at once and fade with this time constant once the neighbour has gone: it drives
/// lines out of a cache faster than the victim brings them back.
pub(crate) fn lingering(points: &[Point], fades_ns: f64, groups: &mut [Group]) -> Vec<Point> {
    let mut points = points.to_vec();
    for group in groups.iter_mut() {
        let mut sum = 0.0;
        for member in &group.members {
            let (mut left, mut before_ns) = (0.0_f64, 0);
            for point in &mut points {
                if point.restart {
                    left = 0.0;
                }
                let passed_ns = point.start_ns.abs_diff(before_ns) as f64;
                before_ns = point.start_ns;
                let now = point.exposure.get(member).copied().unwrap_or(0.0);
                left = now.max(left * (-passed_ns / fades_ns).exp());
                sum += left;
                if left > 0.0 {
                    point.exposure.insert(*member, left);
                }
            }
        }
        group.mean = sum / points.len().max(1) as f64;
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Subject, Way};

    #[test]
    fn what_a_neighbour_did_fades_and_does_not_cross_a_break() {
        let who = (Subject(1), Way::Cache);
        let point = |at: u64, cores: f64, restart: bool| Point {
            start_ns: at * 40_000_000,
            restart,
            exposure: [(who, cores)].into(),
            ..Point::default()
        };
        let points =
            [point(0, 0.0, true), point(1, 1.0, false), point(2, 0.0, false), point(3, 0.0, true)];
        let mut groups = [Group { members: vec![who], mean: 0.25 }];
        let after = lingering(&points, 40e6, &mut groups);
        let seen: Vec<f64> = after.iter().map(|point| groups[0].exposure(point)).collect();
        assert_eq!((seen[0], seen[1], seen[3]), (0.0, 1.0, 0.0));
        assert!((seen[2] - (-1.0_f64).exp()).abs() < 1e-9, "{seen:?}");
        assert!((groups[0].mean - (1.0 + seen[2]) / 4.0).abs() < 1e-9);
    }
}
