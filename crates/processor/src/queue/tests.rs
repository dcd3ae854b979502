use super::*;
use bytes::Bytes;

const LIMITS: QueueLimits = QueueLimits { max_bytes: 1 << 20, segment_bytes: 300 };

fn block(number: usize) -> Block {
    let payload = Bytes::from(format!("block {number} ").repeat(1 + number % 9));
    Block { kind: 1, samples: number as u32, enqueued_ms: 1_700_000_000_000, payload }
}

async fn fill(queue: &Queue, numbers: std::ops::Range<usize>) {
    for number in numbers {
        queue.append(block(number)).await.unwrap();
    }
}

fn drain(reader: &mut Reader) -> Vec<Block> {
    let mut blocks = Vec::new();
    while let Some(entry) = reader.try_next().unwrap() {
        reader.delivered(&entry).unwrap();
        blocks.push(entry.block);
    }
    blocks
}

fn blocks(numbers: std::ops::Range<usize>) -> Vec<Block> {
    numbers.map(block).collect()
}

#[tokio::test]
async fn blocks_come_out_in_order_over_many_segments_and_their_files_go() {
    let folder = tempfile::tempdir().unwrap();
    let (queue, mut reader) = Queue::open(folder.path(), LIMITS).unwrap();
    fill(&queue, 0..50).await;
    assert!(segment::list(folder.path()).unwrap().len() > 3);
    assert_eq!(drain(&mut reader), blocks(0..50));
    assert_eq!(queue.used_bytes(), 0);
    assert_eq!(segment::list(folder.path()).unwrap().len(), 1);
}

#[tokio::test]
async fn a_reopened_queue_goes_on_after_the_last_delivered_block() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..5 {
        let (queue, mut reader) = Queue::open(folder.path(), LIMITS).unwrap();
        fill(&queue, round * 10..round * 10 + 10).await;
        for number in round * 7..round * 7 + 7 {
            let entry = reader.next().await.unwrap();
            assert_eq!(entry.block, block(number));
            reader.delivered(&entry).unwrap();
        }
        // Read but not delivered: comes again.
        reader.next().await.unwrap();
        queue.close();
    }
    let (queue, mut reader) = Queue::open(folder.path(), LIMITS).unwrap();
    let waiting: u64 = blocks(35..50).iter().map(|b| record::size(b.payload.len())).sum();
    assert_eq!(queue.used_bytes(), waiting);
    assert_eq!(drain(&mut reader), blocks(35..50));
}

#[tokio::test]
async fn a_write_cut_off_at_any_byte_costs_only_the_block_being_written() {
    let source = tempfile::tempdir().unwrap();
    let limits = QueueLimits { segment_bytes: 1 << 20, ..LIMITS };
    let (queue, _reader) = Queue::open(source.path(), limits).unwrap();
    fill(&queue, 0..4).await;
    let [segment] = segment::list(source.path()).unwrap()[..] else { panic!("one segment") };
    let whole = std::fs::read(segment::path(source.path(), segment)).unwrap();
    let ends: Vec<usize> = (0..4)
        .scan(0, |end, number| {
            *end += record::size(block(number).payload.len()) as usize;
            Some(*end)
        })
        .collect();
    for length in 0..=whole.len() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(segment::path(folder.path(), segment), &whole[..length]).unwrap();
        let (queue, mut reader) = Queue::open(folder.path(), limits).unwrap();
        let survivors = ends.iter().filter(|&&end| end <= length).count();
        // Written after the crash: must follow the survivors directly.
        fill(&queue, 9..10).await;
        let mut expected = blocks(0..survivors);
        expected.push(block(9));
        assert_eq!(drain(&mut reader), expected, "cut at byte {length}");
    }
}

#[tokio::test]
async fn a_full_queue_says_so_and_takes_more_once_read() {
    let folder = tempfile::tempdir().unwrap();
    let limits = QueueLimits { max_bytes: 100, segment_bytes: 300 };
    let (queue, mut reader) = Queue::open(folder.path(), limits).unwrap();
    let big = Block { payload: Bytes::from(vec![7; 60]), ..block(0) };
    queue.append(big.clone()).await.unwrap();
    assert!(matches!(
        queue.append(big.clone()).await,
        Err(QueueError::Full { used: 84, limit: 100 })
    ));
    assert_eq!(drain(&mut reader), std::slice::from_ref(&big));
    queue.append(big).await.unwrap();
}

#[tokio::test]
async fn room_set_aside_and_not_used_is_given_back() {
    let folder = tempfile::tempdir().unwrap();
    let (queue, _reader) = Queue::open(folder.path(), LIMITS).unwrap();
    let reservation = queue.reserve(1000).unwrap();
    assert_eq!(queue.used_bytes(), 1024);
    drop(reservation);
    assert_eq!(queue.used_bytes(), 0);
}

#[tokio::test]
async fn a_damaged_segment_is_counted_and_the_later_ones_are_delivered() {
    let folder = tempfile::tempdir().unwrap();
    let (queue, _reader) = Queue::open(folder.path(), LIMITS).unwrap();
    fill(&queue, 0..50).await;
    queue.close();
    let segments = segment::list(folder.path()).unwrap();
    let path = segment::path(folder.path(), segments[1]);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[30] ^= 1;
    std::fs::write(&path, &bytes).unwrap();

    let (queue, mut reader) = Queue::open(folder.path(), LIMITS).unwrap();
    let read = drain(&mut reader);
    assert_eq!(queue.damaged_bytes(), bytes.len() as u64);
    assert_eq!(queue.used_bytes(), 0);
    let gaps = read.windows(2).filter(|pair| pair[1].samples != pair[0].samples + 1).count();
    assert_eq!((gaps, read.first()), (1, Some(&block(0))));
    assert_eq!(read.last(), Some(&block(49)));
}

#[tokio::test]
async fn appends_that_wait_together_are_all_kept() {
    let folder = tempfile::tempdir().unwrap();
    let (queue, mut reader) = Queue::open(folder.path(), LIMITS).unwrap();
    let appends: Vec<_> = (0..200)
        .map(|number| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.append(block(number)).await })
        })
        .collect();
    for append in appends {
        append.await.unwrap().unwrap();
    }
    let mut read = drain(&mut reader);
    read.sort_by_key(|block| block.samples);
    assert_eq!(read, blocks(0..200));
}

#[test]
fn a_queue_in_use_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let _open = Queue::open(folder.path(), LIMITS).unwrap();
    assert!(matches!(Queue::open(folder.path(), LIMITS), Err(QueueError::InUse { .. })));
}
