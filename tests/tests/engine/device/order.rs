//! Commands take effect in the order in which they are called, however they reach the device.

use super::{Addition, devices, read, write};
use wisp_engine::device::Granularity;

#[test]
fn dispatches_see_what_earlier_ones_wrote() {
    for device in devices() {
        let first = Addition::new(&device);
        // `b + sum` of the first, in the memory of its `a`.
        let second = Addition::over(&device, first.b.clone(), first.sum.clone(), first.a.clone());
        write(&device, &first.a, [1.0; 4]);
        write(&device, &first.b, [10.0; 4]);
        for _ in 0..3 {
            device
                .record(std::slice::from_ref(&first.dispatch))
                .unwrap();
            device
                .record(std::slice::from_ref(&second.dispatch))
                .unwrap();
        }
        // Each round: sum = a + 10, a = 10 + sum.
        assert_eq!(read(&device, &first.a), [61.0; 4], "{device:?}");
    }
}

#[test]
fn writes_wait_for_recorded_dispatches_that_use_the_buffer() {
    for device in devices() {
        let addition = Addition::new(&device);
        write(&device, &addition.a, [1.0; 4]);
        write(&device, &addition.b, [2.0; 4]);
        device
            .record(std::slice::from_ref(&addition.dispatch))
            .unwrap();
        // Read by the dispatch, written by the dispatch, and its parameters: none may come too early.
        write(&device, &addition.a, [100.0; 4]);
        assert_eq!(read(&device, &addition.sum), [3.0; 4]);

        device
            .record(std::slice::from_ref(&addition.dispatch))
            .unwrap();
        write(&device, &addition.sum, [7.0; 4]);
        assert_eq!(read(&device, &addition.sum), [7.0; 4]);

        device
            .record(std::slice::from_ref(&addition.dispatch))
            .unwrap();
        device.write(&addition.params, 0, &[0; 16]).unwrap();
        assert_eq!(read(&device, &addition.sum), [102.0; 4]);
    }
}

#[test]
fn copies_keep_their_place_between_dispatches() {
    for device in devices() {
        let addition = Addition::new(&device);
        let kept = Addition::new(&device).sum;
        write(&device, &addition.a, [1.0; 4]);
        write(&device, &addition.b, [2.0; 4]);
        device
            .record(std::slice::from_ref(&addition.dispatch))
            .unwrap();
        device.copy(&addition.sum, 0..16, &kept, 0).unwrap();
        device.copy(&addition.sum, 0..16, &addition.a, 0).unwrap();
        device
            .record(std::slice::from_ref(&addition.dispatch))
            .unwrap();
        // A write to the copy's target comes after the copy.
        write(&device, &addition.a, [0.0; 4]);
        assert_eq!(read(&device, &kept), [3.0; 4]);
        assert_eq!(read(&device, &addition.sum), [5.0; 4]);
        assert_eq!(read(&device, &addition.a), [0.0; 4]);
    }
}

#[test]
fn reads_return_what_was_there_when_they_were_called() {
    for device in devices() {
        let addition = Addition::new(&device);
        write(&device, &addition.a, [1.0; 4]);
        device
            .record(std::slice::from_ref(&addition.dispatch))
            .unwrap();
        let first = device.read(&addition.sum, 0..16);
        write(&device, &addition.b, [2.0; 4]);
        device
            .record(std::slice::from_ref(&addition.dispatch))
            .unwrap();
        let second = device.read(&addition.sum, 0..16);
        let [second, first] = [second, first]
            .map(|read| bytemuck::pod_collect_to_vec(&pollster::block_on(read).unwrap()));
        assert_eq!((first, second), (vec![1.0f32; 4], vec![3.0f32; 4]));
    }
}

#[test]
fn more_dispatches_than_one_batch_holds_run_in_order() {
    const TIMES: usize = 5000;
    for device in devices() {
        let first = Addition::new(&device);
        let back = Addition::over(&device, first.sum.clone(), first.b.clone(), first.a.clone());
        write(&device, &first.b, [1.0; 4]);
        let both = [first.dispatch.clone(), back.dispatch.clone()];
        for _ in 0..TIMES / 2 {
            device.record(&both).unwrap();
        }
        assert_eq!(read(&device, &first.a), [TIMES as f32; 4]);
    }
}

#[test]
fn timed_dispatches_run_after_recorded_ones() {
    for device in devices() {
        let first = Addition::new(&device);
        let second = Addition::over(&device, first.sum.clone(), first.b.clone(), first.a.clone());
        write(&device, &first.a, [1.0; 4]);
        write(&device, &first.b, [10.0; 4]);
        device
            .record(std::slice::from_ref(&first.dispatch))
            .unwrap();
        let timed = [second.dispatch.clone(), first.dispatch.clone()];
        for (granularity, spans) in [(Granularity::Submission, 1), (Granularity::Dispatch, 2)] {
            let timed = device.submit_timed(&timed, granularity).unwrap();
            assert_eq!(pollster::block_on(timed).unwrap().len(), spans);
        }
        // sum = 11, a = 21, sum = 31, then a = 41, sum = 51.
        assert_eq!(read(&device, &first.sum), [51.0; 4]);
        let none = device.submit_timed(&[], Granularity::Dispatch).unwrap();
        assert!(pollster::block_on(none).unwrap().is_empty());
    }
}

#[test]
fn finish_waits_for_everything_recorded() {
    for device in devices() {
        let addition = Addition::new(&device);
        device
            .record(std::slice::from_ref(&addition.dispatch))
            .unwrap();
        device.finish_blocking().unwrap();
        device.submit().unwrap();
        device.finish_blocking().unwrap();
        // A device that is dropped with recorded work takes it along.
        device
            .record(std::slice::from_ref(&addition.dispatch))
            .unwrap();
    }
}
