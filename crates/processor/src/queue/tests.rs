use super::*;
use bytes::Bytes;

const LIMITS: QueueLimits =
    QueueLimits { max_bytes: 1 << 20, segment_bytes: 300, when_full: WhenFull::Block };

fn block(number: usize) -> Block {
    let payload = Bytes::from(format!("block {number} ").repeat(1 + number % 9));
    let enqueued_ms = 1_700_000_000_000;
    Block { kind: 1, samples: number as u32, enqueued_ms, payload, ..Block::default() }
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
    let limits = QueueLimits { max_bytes: 100, ..LIMITS };
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
async fn a_reader_close_behind_needs_no_disk() {
    let folder = tempfile::tempdir().unwrap();
    let (queue, mut reader) = Queue::open(folder.path(), ONE_SEGMENT).unwrap();
    fill(&queue, 0..3).await;
    let [segment] = segment::list(folder.path()).unwrap()[..] else { panic!("one segment") };
    let path = segment::path(folder.path(), segment);
    let written = std::fs::read(&path).unwrap();
    std::fs::write(&path, vec![0; written.len()]).unwrap();
    assert_eq!(drain(&mut reader), blocks(0..3));
    assert_eq!((queue.damaged_bytes(), queue.used_bytes()), (0, 0));
}

#[tokio::test]
async fn blocks_come_out_in_order_from_memory_and_from_disk_by_turns() {
    let folder = tempfile::tempdir().unwrap();
    let limits = QueueLimits { max_bytes: 1 << 30, segment_bytes: 3 << 20, ..LIMITS };
    let (queue, mut reader) = Queue::open(folder.path(), limits).unwrap();
    let large =
        |number: usize| Block { payload: vec![number as u8; 300 << 10].into(), ..block(number) };
    let mut next = 0;
    for number in 0..60 {
        queue.append(large(number)).await.unwrap();
        // Now and then the reader catches up; between, more is written than is kept.
        for _ in 0..[0, 0, 3, 0, 0, 0, 0, 0, 0, 5][number % 10] {
            let entry = reader.try_next().unwrap().unwrap();
            assert_eq!(entry.block, large(next), "{next}");
            reader.delivered(&entry).unwrap();
            next += 1;
        }
    }
    assert_eq!(drain(&mut reader), (next..60).map(large).collect::<Vec<_>>());
    assert_eq!((queue.damaged_bytes(), queue.used_bytes()), (0, 0));
}

/// A queue's folder with `count` blocks in one segment, and where each begins.
async fn one_segment(count: usize) -> (tempfile::TempDir, PathBuf, Vec<usize>) {
    let folder = tempfile::tempdir().unwrap();
    let (queue, _reader) = Queue::open(folder.path(), ONE_SEGMENT).unwrap();
    fill(&queue, 0..count).await;
    queue.close();
    let [segment] = segment::list(folder.path()).unwrap()[..] else { panic!("one segment") };
    let size = |number| record::size(block(number).payload.len()) as usize;
    let starts = (0..count).map(|number| (0..number).map(size).sum()).collect();
    let path = segment::path(folder.path(), segment);
    (folder, path, starts)
}

const ONE_SEGMENT: QueueLimits = QueueLimits { segment_bytes: 1 << 20, ..LIMITS };

/// All blocks but these.
fn without(count: usize, lost: &[usize]) -> Vec<Block> {
    (0..count).filter(|number| !lost.contains(number)).map(block).collect()
}

#[tokio::test]
async fn a_damaged_byte_anywhere_in_a_block_costs_that_block_alone() {
    let (folder, path, starts) = one_segment(30).await;
    let whole = std::fs::read(&path).unwrap();
    for place in starts[11]..starts[12] {
        for flip in [0x01, 0xff] {
            let mut bytes = whole.clone();
            bytes[place] ^= flip;
            std::fs::write(&path, &bytes).unwrap();
            let _ = std::fs::remove_file(folder.path().join("cursor"));
            let (queue, mut reader) = Queue::open(folder.path(), ONE_SEGMENT).unwrap();
            assert_eq!(drain(&mut reader), without(30, &[11]), "byte {place} ^ {flip:x}");
            assert_eq!(queue.damaged_bytes(), (starts[12] - starts[11]) as u64);
            assert_eq!(queue.used_bytes(), 0);
            queue.close();
        }
    }
}

#[tokio::test]
async fn damage_over_several_blocks_is_stepped_over_and_new_blocks_follow() {
    let (folder, path, starts) = one_segment(30).await;
    let mut bytes = std::fs::read(&path).unwrap();
    // Zeros as a power cut leaves them, and blocks that begin and end in the wrong place.
    bytes[starts[4] + 5..starts[7] + 3].fill(0);
    bytes[starts[20] + 1] = 0x7f;
    bytes[starts[21] + 30] ^= 4;
    std::fs::write(&path, &bytes).unwrap();
    let (queue, mut reader) = Queue::open(folder.path(), ONE_SEGMENT).unwrap();
    fill(&queue, 30..32).await;
    assert_eq!(drain(&mut reader), without(32, &[4, 5, 6, 7, 20, 21]));
    let lost = (starts[8] - starts[4]) + (starts[22] - starts[20]);
    assert_eq!((queue.damaged_bytes(), queue.used_bytes()), (lost as u64, 0));
}

#[tokio::test]
async fn a_damaged_last_block_is_cut_off_and_counted() {
    let (folder, path, starts) = one_segment(5).await;
    let mut bytes = std::fs::read(&path).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let (queue, mut reader) = Queue::open(folder.path(), ONE_SEGMENT).unwrap();
    assert_eq!(queue.damaged_bytes(), (bytes.len() - starts[4]) as u64);
    fill(&queue, 4..5).await;
    assert_eq!(drain(&mut reader), blocks(0..5));
}

#[tokio::test]
async fn a_damaged_block_of_an_earlier_segment_costs_that_block_alone() {
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
    let lost: Vec<Block> = blocks(0..50).into_iter().filter(|one| !read.contains(one)).collect();
    let [lost] = &lost[..] else { panic!("one block is lost, not {lost:?}") };
    assert_eq!(read, without(50, &[lost.samples as usize]));
    assert_eq!(queue.damaged_bytes(), record::size(lost.payload.len()));
    assert_eq!(queue.used_bytes(), 0);
}

#[tokio::test]
async fn the_oldest_block_is_the_first_that_is_not_delivered() {
    let folder = tempfile::tempdir().unwrap();
    let (queue, mut reader) = Queue::open(folder.path(), LIMITS).unwrap();
    for number in 1..=3 {
        queue.append(Block { enqueued_ms: number * 1000, ..block(0) }).await.unwrap();
    }
    let entries: Vec<Entry> = (0..3).map(|_| reader.try_next().unwrap().unwrap()).collect();
    assert_eq!(queue.oldest_ms(), Some(1000));
    reader.delivered(&entries[0]).unwrap();
    assert_eq!(queue.oldest_ms(), Some(2000));
    // The second is still on its way.
    reader.delivered_alone(&entries[2]).unwrap();
    assert_eq!(queue.oldest_ms(), Some(2000));
    assert_ne!(queue.used_bytes(), 0);
    reader.delivered(&entries[1]).unwrap();
    assert_eq!((queue.oldest_ms(), queue.used_bytes()), (None, 0));
}

#[tokio::test]
async fn blocks_delivered_before_an_older_one_do_not_come_again_and_none_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let (queue, mut reader) = Queue::open(folder.path(), LIMITS).unwrap();
    fill(&queue, 0..20).await;
    let entries: Vec<Entry> = (0..20).map(|_| reader.try_next().unwrap().unwrap()).collect();
    for number in [0, 1, 2, 4, 5, 9, 19] {
        reader.delivered_alone(&entries[number]).unwrap();
    }
    let left = without(20, &[0, 1, 2, 4, 5, 9, 19]);
    queue.close();
    // A restart in the middle forgets none of them, and none of those read again.
    let (queue, mut reader) = Queue::open(folder.path(), LIMITS).unwrap();
    let read: Vec<Entry> = (0..4).map(|_| reader.try_next().unwrap().unwrap()).collect();
    assert_eq!(read.iter().map(|entry| entry.block.clone()).collect::<Vec<_>>(), left[..4]);
    reader.delivered_alone(&read[1]).unwrap();
    queue.close();
    let (queue, mut reader) = Queue::open(folder.path(), LIMITS).unwrap();
    fill(&queue, 20..22).await;
    let expected: Vec<Block> =
        left.into_iter().filter(|block| block.samples != 6).chain(blocks(20..22)).collect();
    assert_eq!(drain(&mut reader), expected);
    assert_eq!((queue.used_bytes(), queue.oldest_ms()), (0, None));
}

#[tokio::test]
async fn what_was_noted_of_a_block_that_is_no_more_is_not_taken_for_the_one_in_its_place() {
    let (folder, path, starts) = one_segment(5).await;
    let (queue, mut reader) = Queue::open(folder.path(), ONE_SEGMENT).unwrap();
    let entries: Vec<Entry> = (0..5).map(|_| reader.try_next().unwrap().unwrap()).collect();
    reader.delivered_alone(&entries[1]).unwrap();
    reader.delivered_alone(&entries[4]).unwrap();
    queue.close();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[starts[4] + 30] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    for _ in 0..2 {
        // The last is cut off; also a process that ends before it reads anything must forget that it was delivered.
        Queue::open(folder.path(), ONE_SEGMENT).unwrap().0.close();
    }
    let (queue, mut reader) = Queue::open(folder.path(), ONE_SEGMENT).unwrap();
    fill(&queue, 4..5).await;
    assert_eq!(drain(&mut reader), without(5, &[1]));
    assert_eq!(queue.used_bytes(), 0);
}

#[tokio::test]
async fn a_cursor_that_is_torn_behind_its_place_or_is_of_before_costs_repeated_blocks_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (queue, mut reader) = Queue::open(folder.path(), ONE_SEGMENT).unwrap();
    fill(&queue, 0..6).await;
    let entries: Vec<Entry> = (0..6).map(|_| reader.try_next().unwrap().unwrap()).collect();
    for number in [0, 2, 4, 5] {
        reader.delivered_alone(&entries[number]).unwrap();
    }
    queue.close();
    let path = folder.path().join("cursor");
    let whole = std::fs::read(&path).unwrap();
    for length in 20..=whole.len() {
        let mut torn = whole[..length].to_vec();
        torn.resize(whole.len(), 0xee);
        for bytes in [&torn[..], &whole[..length]] {
            std::fs::write(&path, bytes).unwrap();
            let (queue, mut reader) = Queue::open(folder.path(), ONE_SEGMENT).unwrap();
            let read: Vec<Block> =
                std::iter::from_fn(|| reader.try_next().unwrap().map(|entry| entry.block))
                    .collect();
            let expected =
                if length < whole.len() { blocks(1..6) } else { without(6, &[0, 2, 4, 5]) };
            assert_eq!(read, expected, "{length} bytes");
            queue.close();
        }
    }
}

#[tokio::test]
async fn a_full_queue_that_may_drops_its_oldest_blocks_and_counts_them() {
    let folder = tempfile::tempdir().unwrap();
    let when_full = WhenFull::DropOldest;
    let limits = QueueLimits { max_bytes: 1000, segment_bytes: 200, when_full };
    let (queue, mut reader) = Queue::open(folder.path(), limits).unwrap();
    let first = {
        fill(&queue, 0..1).await;
        reader.try_next().unwrap().unwrap()
    };
    // The first is on its way all the time, as to a store that is away.
    fill(&queue, 1..100).await;
    assert!(queue.used_bytes() <= 1000, "{}", queue.used_bytes());
    assert!(reader.is_dropped(&first));
    reader.delivered(&first).unwrap();
    let left = drain(&mut reader);
    assert_eq!(left, blocks(100 - left.len()..100));
    assert!(left.len() > 5, "{}", left.len());
    let lost = blocks(0..100 - left.len());
    let samples: u64 = lost.iter().map(|block| u64::from(block.samples)).sum();
    let bytes: u64 = lost.iter().map(|block| record::size(block.payload.len())).sum();
    assert_eq!(queue.dropped(), Dropped { bytes, samples });
    assert_eq!(queue.used_bytes(), 0);
    fill(&queue, 100..101).await;
    queue.close();
    let (_queue, mut reader) = Queue::open(folder.path(), limits).unwrap();
    assert_eq!(drain(&mut reader), blocks(100..101), "also after a restart");
}

#[tokio::test]
async fn a_block_larger_than_the_queue_is_refused_with_its_limit() {
    let folder = tempfile::tempdir().unwrap();
    for when_full in [WhenFull::Block, WhenFull::DropOldest] {
        let limits = QueueLimits { max_bytes: 100, segment_bytes: 300, when_full };
        let (queue, _reader) = Queue::open(folder.path(), limits).unwrap();
        let error = queue.append(Block { payload: vec![7; 90].into(), ..block(0) }).await;
        let text = error.unwrap_err().to_string();
        assert!(text.contains("max_queue_bytes (100)"), "{text}");
        queue.close();
    }
}

/// A small file system, unmounted when dropped; `None` where it may not be made, which is a failure where everything is
/// installed that tests need (`CROSSTALK_NO_SKIP`).
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount(bytes: &str) -> Option<SmallDisk> {
        let folder = tempfile::tempdir().unwrap();
        let mount = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "tmpfs"])
            .arg(folder.path())
            .stderr(std::process::Stdio::null())
            .status();
        let mounted = mount.is_ok_and(|status| status.success());
        let may_skip = std::env::var_os("CROSSTALK_NO_SKIP").is_none();
        assert!(mounted || may_skip, "no file system can be mounted: run the tests as root");
        mounted.then_some(SmallDisk(folder))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(self.0.path()).status();
    }
}

#[tokio::test]
async fn a_disk_that_stays_full_leaves_no_heap_of_segments_and_goes_on_once_there_is_room() {
    let Some(disk) = SmallDisk::mount("64k") else {
        eprintln!("skipped: no file system can be mounted here");
        return;
    };
    let folder = disk.0.path().join("queue");
    let limits = QueueLimits { segment_bytes: 1 << 20, ..LIMITS };
    let (queue, mut reader) = Queue::open(&folder, limits).unwrap();
    fill(&queue, 0..3).await;
    let filler = disk.0.path().join("filler");
    let mut kept = 3;
    let _ = std::fs::write(&filler, vec![1; 1 << 20]);
    let big = || Block { payload: vec![9; 3000].into(), ..block(3) };
    for _ in 0..200 {
        kept += usize::from(queue.append(big()).await.is_ok());
    }
    assert!(kept < 6, "the disk is full");
    let segments = segment::list(&folder).unwrap().len();
    assert!(segments <= 2, "{segments} segments");
    std::fs::remove_file(&filler).unwrap();
    queue.append(big()).await.unwrap();
    assert_eq!(drain(&mut reader).len(), kept + 1);
    assert_eq!((queue.damaged_bytes(), queue.used_bytes()), (0, 0));
}

#[tokio::test]
async fn a_queue_that_may_drops_its_oldest_blocks_where_the_disk_is_what_is_full() {
    let Some(disk) = SmallDisk::mount("64k") else {
        eprintln!("skipped: no file system can be mounted here");
        return;
    };
    let folder = disk.0.path().join("queue");
    let when_full = WhenFull::DropOldest;
    let limits = QueueLimits { max_bytes: 1 << 20, segment_bytes: 8192, when_full };
    let (queue, mut reader) = Queue::open(&folder, limits).unwrap();
    let numbered =
        |number: u32| Block { samples: number, payload: vec![9; 3000].into(), ..block(0) };
    for number in 0..60 {
        queue.append(numbered(number)).await.unwrap();
    }
    let left: Vec<u32> = drain(&mut reader).iter().map(|block| block.samples).collect();
    assert_eq!(left.last(), Some(&59), "what is new is kept");
    assert!(left.len() > 5 && left.len() < 25, "{} fit", left.len());
    let lost = (0..60).filter(|number| !left.contains(number)).map(u64::from).sum::<u64>();
    assert_eq!(queue.dropped().samples, lost);
    assert_eq!(queue.used_bytes(), 0);
}

/// A file on a disk that cannot read some of it.
#[derive(Debug)]
struct FailingDisk {
    bytes: Vec<u8>,
    bad: std::ops::Range<u64>,
}

impl segment::ReadAt for FailingDisk {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
        let end = offset + buffer.len() as u64;
        if offset < self.bad.end && end > self.bad.start {
            return Err(std::io::Error::from_raw_os_error(5));
        }
        buffer.copy_from_slice(&self.bytes[offset as usize..end as usize]);
        Ok(())
    }
}

#[tokio::test]
async fn what_the_disk_cannot_read_is_stepped_over() {
    let folder = tempfile::tempdir().unwrap();
    let limits = QueueLimits { segment_bytes: 1 << 20, ..LIMITS };
    let (queue, _reader) = Queue::open(folder.path(), limits).unwrap();
    fill(&queue, 0..400).await;
    let number = segment::list(folder.path()).unwrap()[0];
    let bytes = std::fs::read(segment::path(folder.path(), number)).unwrap();
    let end = bytes.len() as u64;
    // Two sectors in the middle.
    let disk = FailingDisk { bytes, bad: 8192..16384 };
    let (mut read, mut offset) = (Vec::new(), 0);
    while offset < end {
        match segment::read_record(&disk, offset, end) {
            Ok(Some(block)) => {
                offset += record::size(block.payload.len());
                read.push(block.samples);
            }
            Ok(None) => panic!("nothing is damaged at {offset}"),
            Err(error) if segment::is_unreadable(&error) => {
                offset = segment::next_readable(&disk, offset, end).unwrap().unwrap_or(end);
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(read.is_sorted() && read.first() == Some(&0) && read.last() == Some(&399));
    let lost: u64 = (0..400u32)
        .filter(|number| !read.contains(number))
        .map(|number| record::size(block(number as usize).payload.len()))
        .sum();
    assert!((8192..8192 + 400).contains(&lost), "{lost} bytes lost for 8192 bad ones");
}

#[tokio::test]
async fn damage_before_a_place_that_the_disk_cannot_read_stops_neither_start_nor_reader() {
    let (folder, path, starts) = one_segment(400).await;
    let mut bytes = std::fs::read(&path).unwrap();
    let bad = 8192..12288;
    // The last block that is whole before the bad place.
    let damaged = starts.iter().rposition(|start| *start < 8192).unwrap() - 1;
    bytes[starts[damaged] + 30] ^= 1;
    let disk = || FailingDisk { bytes: bytes.clone(), bad: bad.clone() };
    let end = bytes.len() as u64;
    assert_eq!(segment::end_of_records(&disk(), end).unwrap(), end, "what follows is kept");

    let (queue, mut reader) = Queue::open(folder.path(), ONE_SEGMENT).unwrap();
    let number = segment::list(folder.path()).unwrap()[0];
    reader.read_from(number, Box::new(disk()));
    let read: Vec<usize> = drain(&mut reader).iter().map(|block| block.samples as usize).collect();
    let behind = starts.iter().position(|start| *start >= 12288).unwrap();
    assert_eq!(read, (0..damaged).chain(behind..400).collect::<Vec<_>>());
    assert_eq!(queue.damaged_bytes(), (starts[behind] - starts[damaged]) as u64);
    assert_eq!(queue.used_bytes(), 0);
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
