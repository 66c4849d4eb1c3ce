//! Images of generations, and volumes made from them.

use std::sync::Arc;

use saki_base::{DeviceId, PageSize, Random};
use saki_io::Device;
use saki_volume::{HeldImage, Image, Restoration, Volume, VolumeError};

use crate::fleet::Fleet;
use crate::support::{Model, device, open};

const PAGE_BYTES: u32 = 8192;

fn publish(volume: &Arc<Volume>, model: &mut Model, random: &mut Random, count: u64, share: f64) {
    let publication = volume.begin();
    publication.free(&model.take(random, share));
    let mut writer = publication.writer();
    let page_size = PageSize::new(PAGE_BYTES).expect("valid");
    (0..3).for_each(|_| model.append(&mut writer, random, page_size, count / 3));
    writer.finish().expect("finished");
    publication.commit(b"root").expect("committed");
}

/// Reads the image in the given order and has it restored to a device.
fn restore(held: &HeldImage, target: &Arc<dyn Device>) -> Result<(), VolumeError> {
    let restoration = Restoration::begin(Arc::clone(target), "restored".to_owned(), held.image().clone())?;
    let (mut reader, mut writer) = (held.reader()?, restoration.writer()?);
    // Backwards: chunks may come in any order.
    for chunk in held.image().chunks.iter().rev() {
        writer.write(chunk.chunk, &reader.read(chunk)?)?;
    }
    drop(writer);
    restoration.finish()
}

#[test]
fn an_image_has_its_generation_whatever_is_published_and_moved_meanwhile() {
    let fleet = Fleet::new(3, 2);
    let (volume, mut model, mut random) = (fleet.create(2, PAGE_BYTES), Model::default(), Random::new(5));
    for round in 0..30 {
        publish(&volume, &mut model, &mut random, 20 + round % 5 * 60, 0.1);
    }
    let (held, mut later) = (volume.hold_image(), model.clone());
    assert!(held.image().chunks.iter().any(|chunk| chunk.written.is_some()), "no chunk is open");
    let target = device(9);
    std::thread::scope(|scope| {
        let going_on = scope.spawn(|| {
            for _ in 0..10 {
                publish(&volume, &mut later, &mut random, 150, 0.3);
            }
            volume.drain_device(DeviceId(1)).expect("drained");
            publish(&volume, &mut later, &mut random, 150, 0.3);
        });
        let target = Arc::clone(&target) as Arc<dyn Device>;
        restore(&held, &target).expect("restored while others publish");
        going_on.join().expect("published");
    });
    later.check_pages_on(&volume, |number| &fleet.0[usize::from(number.0)]);
    let restored = open(&target).expect("opens");
    assert_eq!((restored.root(), restored.database_id()), (b"root".to_vec(), volume.database_id()));
    model.check(&restored, &target);
    // And once more, now that much of it is freed and all of it has moved: the same bytes.
    let again = device(10);
    restore(&held, &(Arc::clone(&again) as Arc<dyn Device>)).expect("restored afterwards");
    model.check(&open(&again).expect("opens"), &again);
    drop(held);
    // What was restored goes on as any other volume.
    publish(&restored, &mut model, &mut random, 500, 0.5);
    drop(restored);
    model.check(&open(&target).expect("opens again"), &target);
}

#[test]
fn a_restoration_that_is_not_finished_is_no_volume() {
    let fleet = Fleet::new(4, 1);
    let (volume, mut model, mut random) = (fleet.create(1, PAGE_BYTES), Model::default(), Random::new(6));
    publish(&volume, &mut model, &mut random, 600, 0.0);
    let held = volume.hold_image();
    let target: Arc<dyn Device> = device(11);
    let restoration = Restoration::begin(Arc::clone(&target), "it".to_owned(), held.image().clone()).expect("begun");
    let mut reader = held.reader().expect("a reader");
    for chunk in &held.image().chunks {
        let bytes = reader.read(chunk).expect("read");
        restoration.writer().expect("a writer").write(chunk.chunk, &bytes).expect("written");
    }
    assert!(Volume::open(Arc::clone(&target)).is_err());
    restoration.finish().expect("finished");
    assert!(Volume::open(Arc::clone(&target)).is_ok());
    let refused = restore(&held, &target);
    assert!(matches!(refused, Err(VolumeError::AlreadyADatabase { .. })), "{refused:?}");
}

#[test]
fn an_image_that_contradicts_itself_is_refused() {
    let fleet = Fleet::new(5, 1);
    let (volume, mut model, mut random) = (fleet.create(1, PAGE_BYTES), Model::default(), Random::new(7));
    publish(&volume, &mut model, &mut random, 600, 0.0);
    let whole = volume.hold_image().image().clone();
    let refused = |change: &dyn Fn(&mut Image)| {
        let mut image = whole.clone();
        change(&mut image);
        let begun = Restoration::begin(device(12), "it".to_owned(), image);
        matches!(begun, Err(VolumeError::Refused { .. }))
    };
    assert!(!refused(&|_| {}));
    assert!(refused(&|image| image.chunks.reverse()));
    assert!(refused(&|image| image.next_chunk = image.chunks[0].chunk));
    assert!(refused(&|image| image.chunks[0].live_pages = 129));
    assert!(refused(&|image| image.chunks[0].written = Some(0)));
    assert!(refused(&|image| image.root = vec![0; 257]));
}
