//! Work done ahead.

use std::sync::mpsc::{IntoIter, sync_channel};
use std::thread::Scope;

/// What may wait: enough that neither side stands still, and little memory.
const MOST_WAITING: usize = 4;

/// What an iterator gives, made by a thread of its own: decompressing and decoding columns takes about as long as what
/// is done with them. The thread ends with the iterator, or when nobody takes from it any more.
pub(crate) fn ahead<'scope, T: Send + 'scope, I: Iterator<Item = T>>(
    scope: &'scope Scope<'scope, '_>,
    make: impl FnOnce() -> I + Send + 'scope,
) -> IntoIter<T> {
    let (give, take) = sync_channel(MOST_WAITING);
    scope.spawn(move || {
        for one in make() {
            if give.send(one).is_err() {
                return;
            }
        }
    });
    take.into_iter()
}
