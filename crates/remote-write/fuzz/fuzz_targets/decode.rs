//! Any bytes: no panic, and what was accepted is accepted again after encoding, with the same counts.
#![no_main]

use crosstalk_remote_write::{Decoder, Encoder, Limits, Metadata, Protocol, Receiver, Series};
use libfuzzer_sys::fuzz_target;

struct Again(Encoder);

impl<'b> Receiver<'b> for Again {
    fn series(&mut self, series: &Series<'_, 'b>) {
        self.0.series("", series.labels, series);
    }
    fn metadata(&mut self, metadata: &Metadata<'b>) {
        self.0.metadata("", metadata);
    }
}

fuzz_target!(|body: &[u8]| {
    for protocol in [Protocol::V1, Protocol::V2] {
        let mut decoder = Decoder::new(Limits::default());
        let mut again = Again(Encoder::new(protocol));
        if let Ok(outcome) = decoder.decode(protocol, body, &mut again) {
            let mut twice = Again(Encoder::new(protocol));
            let second = decoder.decode(protocol, again.0.finish(), &mut twice).unwrap();
            assert_eq!(second.written, outcome.written);
            assert_eq!(second.rejected, 0);
        }
    }
});
