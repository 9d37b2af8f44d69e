//! Compiled pipelines on disk, where the driver can save them (Vulkan).

use std::sync::{
    Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use wisp_files::{CacheEntry, DiskCache};
use wisp_types::digest;

/// A driver's cache of pipelines, and the file in which it outlives the process.
#[derive(Debug)]
pub(super) struct DriverCache {
    /// The file's name: one for each adapter and driver. `None` if the driver cannot save its cache.
    name: Option<String>,
    open: Mutex<Option<Open>>,
    /// Pipelines were compiled since the file was written.
    changed: AtomicBool,
}

#[derive(Debug)]
struct Open {
    cache: wgpu::PipelineCache,
    disk: DiskCache,
    /// The contents of the file.
    saved: Vec<u8>,
}

impl DriverCache {
    pub fn new(info: &wgpu::AdapterInfo, features: wgpu::Features) -> DriverCache {
        let supported = features.contains(wgpu::Features::PIPELINE_CACHE);
        let adapter = wgpu::util::pipeline_cache_key(info).filter(|_| supported);
        let name = adapter.map(|adapter| {
            let key = digest([&adapter, &info.name, &info.driver, &info.driver_info]);
            CacheEntry::Pipelines.file_name(&key)
        });
        DriverCache {
            name,
            open: Mutex::default(),
            changed: AtomicBool::new(false),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Open>> {
        // Poisoning is harmless: the value is replaced whole.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the adapter's file of a cache on disk.
    pub fn open(&self, device: &wgpu::Device, disk: &DiskCache) {
        let Some(name) = &self.name else { return };
        let saved = disk.read(name);
        let descriptor = wgpu::PipelineCacheDescriptor {
            label: Some(name),
            data: saved.as_deref(),
            fallback: true,
        };
        // SAFETY: `save` writes these files with what `get_data` returned for the same adapter and driver.
        // The disk cache has checked that the file is complete and that only the user can have written it.
        let cache = unsafe { device.create_pipeline_cache(&descriptor) };
        *self.lock() = Some(Open {
            cache,
            disk: disk.clone(),
            saved: saved.unwrap_or_default(),
        });
    }

    /// Returns the driver's cache, for pipelines to be compiled with.
    pub fn get(&self) -> Option<wgpu::PipelineCache> {
        self.lock().as_ref().map(|open| open.cache.clone())
    }

    /// Notes that a pipeline was compiled.
    pub fn set_changed(&self) {
        self.changed.store(true, Ordering::Relaxed);
    }

    /// Writes the driver's cache to its file if it has changed.
    pub fn save(&self) {
        let mut open = self.lock();
        let (Some(open), Some(name)) = (open.as_mut(), &self.name) else {
            return;
        };
        if !self.changed.swap(false, Ordering::Relaxed) {
            return;
        }
        match open.cache.get_data() {
            Some(data) if data != open.saved => {
                open.disk.write(name, &data);
                open.saved = data;
            }
            _ => {}
        }
    }
}
