use std::sync::atomic::{AtomicUsize, Ordering};

/// What `work` makes of every item, in their order, several at a time where there is more than one thread for it.
pub(crate) fn side_by_side<T: Sync, R: Send>(
    items: &[T],
    threads: usize,
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    if threads.min(items.len()) <= 1 {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let share = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { return done };
            done.push((at, work(item)));
        }
    };
    let mut all = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(share)).collect();
        let mut all = share();
        for other in others {
            match other.join() {
                Ok(done) => all.extend(done),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    });
    all.sort_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, made)| made).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_comes_in_the_order_of_the_items_whoever_made_it() {
        let items: Vec<u64> = (0..1_000).collect();
        for threads in [0, 1, 3] {
            let made = side_by_side(&items, threads, |item| item * 2);
            assert_eq!(made, items.iter().map(|item| item * 2).collect::<Vec<_>>());
        }
    }
}
