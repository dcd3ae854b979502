//! What a filter on a time cut down to its second says of the time itself.
//!
//! Views tell of seconds: `WHERE second >= X` reaches the files as `date_trunc('second', time) >= X`, of which the engine
//! knows no least and greatest value, so that it would read all there is. The time is never before its second begins, and
//! less than a second behind: that much is added, and by it whole files and groups of rows are passed over.

use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, lit};

/// What must hold of the time where this holds of what it was cut down to.
pub(super) fn follows_from(said: &Expr) -> Vec<Expr> {
    let nothing = Vec::new();
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = said else { return nothing };
    let (Expr::ScalarFunction(ScalarFunction { func, args }), Expr::Literal(bound, _)) =
        (&**left, &**right)
    else {
        return nothing;
    };
    let [Expr::Literal(unit, _), Expr::Column(time)] = &args[..] else { return nothing };
    let Some(seconds) = unit.try_as_str().flatten().and_then(length_s) else { return nothing };
    if func.name() != "date_trunc" {
        return nothing;
    }
    let Some(end) = later(bound, seconds) else { return nothing };
    let time = || Expr::Column(time.clone());
    let since = || time().gt_eq(lit(bound.clone()));
    let until = || time().lt(lit(end.clone()));
    match op {
        Operator::Gt | Operator::GtEq => vec![since()],
        Operator::Lt | Operator::LtEq => vec![until()],
        Operator::Eq => vec![since(), until()],
        _ => nothing,
    }
}

/// Units that are always as long.
fn length_s(unit: &str) -> Option<i64> {
    Some(match unit.to_ascii_lowercase().as_str() {
        "second" => 1,
        "minute" => 60,
        "hour" => 3_600,
        _ => return None,
    })
}

fn later(time: &ScalarValue, seconds: i64) -> Option<ScalarValue> {
    let by = |time: i64, each: i64| time.checked_add(seconds.checked_mul(each)?);
    Some(match time {
        ScalarValue::TimestampSecond(Some(at), zone) => {
            ScalarValue::TimestampSecond(Some(by(*at, 1)?), zone.clone())
        }
        ScalarValue::TimestampMillisecond(Some(at), zone) => {
            ScalarValue::TimestampMillisecond(Some(by(*at, 1_000)?), zone.clone())
        }
        ScalarValue::TimestampMicrosecond(Some(at), zone) => {
            ScalarValue::TimestampMicrosecond(Some(by(*at, 1_000_000)?), zone.clone())
        }
        ScalarValue::TimestampNanosecond(Some(at), zone) => {
            ScalarValue::TimestampNanosecond(Some(by(*at, 1_000_000_000)?), zone.clone())
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::functions::expr_fn::date_trunc;
    use datafusion::prelude::col;

    fn at(us: i64) -> Expr {
        lit(ScalarValue::TimestampMicrosecond(Some(us), Some("UTC".into())))
    }

    #[test]
    fn a_time_lies_between_its_second_and_the_next() {
        let second = || date_trunc(lit("second"), col("time"));
        let since = vec![col("time").gt_eq(at(7_000_000))];
        let until = vec![col("time").lt(at(8_000_000))];
        assert_eq!(follows_from(&second().gt_eq(at(7_000_000))), since);
        assert_eq!(follows_from(&second().gt(at(7_000_000))), since);
        assert_eq!(follows_from(&second().lt(at(7_000_000))), until);
        assert_eq!(follows_from(&second().lt_eq(at(7_000_000))), until);
        assert_eq!(follows_from(&second().eq(at(7_000_000))), [since, until].concat());
        let minute = date_trunc(lit("minute"), col("time")).lt(at(0));
        assert_eq!(follows_from(&minute), [col("time").lt(at(60_000_000))]);
    }

    #[test]
    fn nothing_follows_from_what_is_not_understood() {
        for said in [
            date_trunc(lit("month"), col("time")).gt(at(0)),
            date_trunc(lit("second"), col("time")).not_eq(at(0)),
            date_trunc(lit("second"), col("time")).gt(col("other")),
            col("time").gt(at(0)),
        ] {
            assert!(follows_from(&said).is_empty(), "{said}");
        }
    }
}
