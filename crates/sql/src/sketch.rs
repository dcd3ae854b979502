//! `sketch_quantile(SKETCH, Q)`: a quantile over the sketches of many rows, as roll-ups hold them.
//!
//! Quantiles of seconds do not add up to that of an hour; their sketches do, and are right within 1 % afterwards as before.

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::SessionContext;
use datafusion::logical_expr::{Accumulator, Volatility, create_udaf};
use datafusion::scalar::ScalarValue;
use sketches_ddsketch::DDSketch;
use std::fmt;
use std::sync::Arc;

const NAME: &str = "sketch_quantile";

/// Makes the function known to a session.
pub(crate) fn register(context: &SessionContext) {
    let kinds = || vec![DataType::Binary, DataType::Float64];
    context.register_udaf(create_udaf(
        NAME,
        kinds(),
        Arc::new(DataType::Float64),
        Volatility::Immutable,
        Arc::new(|_| Ok(Box::new(Merged::default()))),
        Arc::new(kinds()),
    ));
}

/// Sketches that were met so far, as one.
#[derive(Default)]
struct Merged {
    sketch: Option<Box<DDSketch>>,
    /// The quantile asked for.
    at: Option<f64>,
}

impl fmt::Debug for Merged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = self.sketch.as_ref().map_or(0, |sketch| sketch.count());
        f.debug_struct("Merged").field("values", &values).field("at", &self.at).finish()
    }
}

impl Merged {
    /// Of a batch: sketches, and the quantile beside each. What measured nothing has no sketch.
    fn add(&mut self, batch: &[ArrayRef]) -> Result<()> {
        let wrong = || failed("it takes a sketch and a quantile, such as (wait_sketch, 0.99)");
        let [sketches, at] = batch else { return Err(wrong()) };
        let sketches = sketches.as_binary_opt::<i32>().ok_or_else(wrong)?;
        let at = at.as_primitive_opt::<Float64Type>().ok_or_else(wrong)?;
        for row in 0..sketches.len() {
            if at.is_valid(row) {
                self.at = Some(at.value(row));
            }
            if sketches.is_null(row) {
                continue;
            }
            let one = DDSketch::from_java_bytes(sketches.value(row));
            let one = one.map_err(|e| failed(&format!("a value is no sketch of a rollup: {e}")))?;
            match &mut self.sketch {
                None => self.sketch = Some(Box::new(one)),
                Some(sketch) => sketch.merge(&one).map_err(|e| failed(&e.to_string()))?,
            }
        }
        Ok(())
    }
}

fn failed(why: &str) -> DataFusionError {
    DataFusionError::Execution(format!("{NAME}: {why}"))
}

impl Accumulator for Merged {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(values)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.add(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let bytes = self.sketch.as_ref().map(|sketch| sketch.to_java_bytes());
        Ok(vec![ScalarValue::Binary(bytes), ScalarValue::Float64(self.at)])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let (Some(sketch), Some(at)) = (&self.sketch, self.at) else {
            return Ok(ScalarValue::Float64(None));
        };
        if !(0.0..=1.0).contains(&at) {
            return Err(failed(&format!("{at} is no quantile; give one from 0 to 1")));
        }
        let quantile = sketch.quantile(at).map_err(|e| failed(&e.to_string()))?;
        Ok(ScalarValue::Float64(quantile))
    }

    fn size(&self) -> usize {
        let bins = self.sketch.as_ref().map_or(0, |sketch| sketch.length());
        size_of::<Self>() + size_of::<DDSketch>() + bins * size_of::<u64>()
    }
}
