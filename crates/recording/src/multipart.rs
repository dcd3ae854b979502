//! A large file sent in parts, one after the other, with time for each: a slow link is not a dead one. What does not come
//! to its end is aborted, because a store keeps the parts of an upload that nobody ended, unseen, and asks money for them.

use crate::Error;
use object_store::MultipartUpload;
use std::future::Future;
use std::time::Duration;
use tokio::time::timeout;

/// Sent at once, and the least that S3 takes for a part that is not the last.
pub(crate) const PART: usize = 5 << 20;
/// What a part may take: below 130 kbit/s a recorder could not send what it records anyway.
pub(crate) const LONGEST_PART: Duration = Duration::from_secs(330);

/// Why an upload failed.
#[derive(Debug)]
pub(crate) enum Failed {
    /// What is to be sent cannot be read here.
    Input(Error),
    /// The store said so.
    Store(object_store::Error),
    /// A part has not been taken in this time.
    Late(Duration),
}

/// Sends `first` and what `next` hands out until that is empty. How many bytes these were.
pub(crate) async fn send(
    mut upload: Box<dyn MultipartUpload>,
    first: Vec<u8>,
    next: &mut dyn FnMut() -> Result<Vec<u8>, Error>,
    longest: Duration,
) -> Result<u64, Failed> {
    let sent = parts(upload.as_mut(), first, next, longest).await;
    if sent.is_err() {
        // The store may be gone altogether; then it is for its own rules to clean up.
        let _ = in_time(longest, upload.abort()).await;
    }
    sent
}

async fn parts(
    upload: &mut dyn MultipartUpload,
    first: Vec<u8>,
    next: &mut dyn FnMut() -> Result<Vec<u8>, Error>,
    longest: Duration,
) -> Result<u64, Failed> {
    let (mut part, mut bytes) = (first, 0);
    while !part.is_empty() {
        bytes += part.len() as u64;
        in_time(longest, upload.put_part(part.into())).await?;
        part = next().map_err(Failed::Input)?;
    }
    in_time(longest, upload.complete()).await?;
    Ok(bytes)
}

async fn in_time<T>(
    longest: Duration,
    work: impl Future<Output = object_store::Result<T>>,
) -> Result<T, Failed> {
    match timeout(longest, work).await {
        Ok(done) => done.map_err(Failed::Store),
        Err(_) => Err(Failed::Late(longest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::{PutPayload, PutResult, UploadPart};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Takes a while for each part, and never ends the one that is said.
    #[derive(Debug, Default)]
    struct Slow {
        taken: Arc<AtomicUsize>,
        aborted: Arc<AtomicUsize>,
        stuck_at: Option<usize>,
    }

    const EACH: Duration = Duration::from_millis(40);
    const LONGEST: Duration = Duration::from_millis(400);

    impl MultipartUpload for Slow {
        fn put_part(&mut self, _: PutPayload) -> UploadPart {
            let is_stuck = self.stuck_at == Some(self.taken.fetch_add(1, Ordering::Relaxed));
            Box::pin(async move {
                if is_stuck {
                    std::future::pending::<()>().await;
                }
                tokio::time::sleep(EACH).await;
                Ok(())
            })
        }

        fn complete<'a, 'b>(
            &'a mut self,
        ) -> std::pin::Pin<Box<dyn Future<Output = object_store::Result<PutResult>> + Send + 'b>>
        where
            'a: 'b,
            Self: 'b,
        {
            Box::pin(async { Ok(PutResult { e_tag: None, version: None }) })
        }

        fn abort<'a, 'b>(
            &'a mut self,
        ) -> std::pin::Pin<Box<dyn Future<Output = object_store::Result<()>> + Send + 'b>>
        where
            'a: 'b,
            Self: 'b,
        {
            self.aborted.fetch_add(1, Ordering::Relaxed);
            Box::pin(async { Ok(()) })
        }
    }

    fn sent(slow: Slow, parts: usize) -> Result<u64, Failed> {
        let mut left = parts;
        let mut next = || {
            left -= 1;
            Ok(if left == 0 { Vec::new() } else { vec![0; 10] })
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(send(Box::new(slow), vec![0; 10], &mut next, LONGEST))
    }

    #[test]
    fn a_link_that_is_slow_but_goes_on_has_all_the_time_it_needs() {
        let slow = Slow::default();
        let aborted = slow.aborted.clone();
        // Together more than any one of them may take.
        assert_eq!(sent(slow, 20).unwrap(), 200);
        assert_eq!(aborted.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn an_upload_that_stands_still_or_whose_file_is_gone_is_aborted() {
        let slow = Slow { stuck_at: Some(2), ..Slow::default() };
        let (taken, aborted) = (slow.taken.clone(), slow.aborted.clone());
        assert!(matches!(sent(slow, 5), Err(Failed::Late(LONGEST))));
        assert_eq!((taken.load(Ordering::Relaxed), aborted.load(Ordering::Relaxed)), (3, 1));

        let slow = Slow::default();
        let aborted = slow.aborted.clone();
        let gone = || Error::NothingThere { place: String::new() };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let failed = runtime.block_on(send(Box::new(slow), vec![0], &mut || Err(gone()), LONGEST));
        assert!(matches!(failed, Err(Failed::Input(_))));
        assert_eq!(aborted.load(Ordering::Relaxed), 1);
    }
}
