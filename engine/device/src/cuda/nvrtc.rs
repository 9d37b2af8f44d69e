//! NVRTC, NVIDIA's compiler of CUDA C++ as a library.
//!
//! These few functions are loaded here rather than through cudarc, which knows the names of the libraries of one
//! version of CUDA only and panics without one.

use std::{
    ffi::{CStr, CString, c_char, c_int, c_void},
    ptr,
    sync::OnceLock,
};

use libloading::Library;

use crate::error::DeviceError;

/// The file names under which the library is installed: where the system finds libraries, then where CUDA's toolkits put it;
/// the newest version first.
#[cfg(windows)]
const NAMES: &[&str] = &["nvrtc64_130_0.dll", "nvrtc64_120_0.dll"];
#[cfg(not(windows))]
const NAMES: &[&str] = &[
    "libnvrtc.so.13",
    "libnvrtc.so.12",
    "libnvrtc.so",
    "/usr/local/cuda/lib64/libnvrtc.so",
    "/usr/local/cuda-13/lib64/libnvrtc.so.13",
    "/usr/local/cuda-12/lib64/libnvrtc.so.12",
];

/// The result of a call; 0 is success.
type Code = c_int;
type Program = *mut c_void;

/// The status of a program that does not compile.
const COMPILATION_FAILED: Code = 6;

/// A version of the library, loaded once for the life of the process.
#[derive(Debug)]
pub(super) struct Nvrtc {
    create: unsafe extern "C" fn(
        *mut Program,
        *const c_char,
        *const c_char,
        c_int,
        *const *const c_char,
        *const *const c_char,
    ) -> Code,
    compile: unsafe extern "C" fn(Program, c_int, *const *const c_char) -> Code,
    destroy: unsafe extern "C" fn(*mut Program) -> Code,
    log_size: unsafe extern "C" fn(Program, *mut usize) -> Code,
    log: unsafe extern "C" fn(Program, *mut c_char) -> Code,
    cubin_size: unsafe extern "C" fn(Program, *mut usize) -> Code,
    cubin: unsafe extern "C" fn(Program, *mut c_char) -> Code,
    error_string: unsafe extern "C" fn(Code) -> *const c_char,
    /// The version of CUDA that the library is part of: major and minor.
    version: [c_int; 2],
    /// The compute capabilities that it compiles for, ascending: 80 is `sm_80`.
    architectures: Vec<u32>,
}

impl Nvrtc {
    /// Returns the first library of [`NAMES`] whose code a driver for CUDA `driver_major` loads, of those that compile for a
    /// compute capability if there are any; `None` if there is none. Drivers load no code of later major versions.
    pub fn get(driver_major: c_int, architecture: u32) -> Option<&'static Nvrtc> {
        static LIBRARIES: [OnceLock<Option<Nvrtc>>; NAMES.len()] =
            [const { OnceLock::new() }; NAMES.len()];
        let installed = || {
            let named = NAMES.iter().zip(&LIBRARIES);
            named
                .filter_map(|(name, library)| library.get_or_init(|| Nvrtc::load(name)).as_ref())
                .filter(|nvrtc| nvrtc.version[0] <= driver_major)
        };
        let knowing = installed().find(|nvrtc| nvrtc.architectures.contains(&architecture));
        let compiling = || installed().find(|nvrtc| nvrtc.target(architecture).is_ok());
        knowing.or_else(compiling).or_else(|| installed().next())
    }

    /// Returns the architecture to compile for, for cards of a compute capability, of which 80 is `sm_80`: the same or, for a
    /// newer card than the library knows, the last one before it whose code it runs.
    ///
    /// # Errors
    ///
    /// If the library compiles for none.
    pub fn target(&self, architecture: u32) -> Result<u32, DeviceError> {
        target(&self.architectures, architecture).ok_or_else(|| DeviceError::UnknownArchitecture {
            compiler: format!("NVRTC {}", self.version()),
            architecture: format!("sm_{architecture}"),
        })
    }

    /// The version of CUDA that the library is part of, as `13.0`.
    pub fn version(&self) -> String {
        let [major, minor] = self.version;
        format!("{major}.{minor}")
    }

    fn load(name: &str) -> Option<Nvrtc> {
        // SAFETY: NVIDIA's library has no requirement for being loaded.
        let library = unsafe { Library::new(name) }.ok()?;
        // Never unloaded: its functions are called until the process ends.
        let library: &'static Library = Box::leak(Box::new(library));
        // SAFETY: the types of these functions are those of nvrtc.h, unchanged since CUDA 11.2.
        unsafe {
            let version = version(*library.get(b"nvrtcVersion\0").ok()?)?;
            let architectures = architectures(
                *library.get(b"nvrtcGetNumSupportedArchs\0").ok()?,
                *library.get(b"nvrtcGetSupportedArchs\0").ok()?,
            )?;
            Some(Nvrtc {
                create: *library.get(b"nvrtcCreateProgram\0").ok()?,
                compile: *library.get(b"nvrtcCompileProgram\0").ok()?,
                destroy: *library.get(b"nvrtcDestroyProgram\0").ok()?,
                log_size: *library.get(b"nvrtcGetProgramLogSize\0").ok()?,
                log: *library.get(b"nvrtcGetProgramLog\0").ok()?,
                cubin_size: *library.get(b"nvrtcGetCUBINSize\0").ok()?,
                cubin: *library.get(b"nvrtcGetCUBIN\0").ok()?,
                error_string: *library.get(b"nvrtcGetErrorString\0").ok()?,
                version,
                architectures,
            })
        }
    }

    /// Compiles CUDA C++ to machine code for an architecture such as `sm_80`. `name` stands in messages for the
    /// file. Several threads may compile at once. Returns the compiler's messages as well.
    ///
    /// # Errors
    ///
    /// The compiler's messages.
    pub fn compile(
        &self,
        name: &str,
        source: &str,
        options: &[String],
    ) -> Result<(Vec<u8>, String), String> {
        let text = |text: &str| CString::new(text).map_err(|error| error.to_string());
        let (source, name) = (text(source)?, text(name)?);
        let options: Vec<CString> = options
            .iter()
            .map(|option| text(option))
            .collect::<Result<_, _>>()?;
        let mut program: Program = ptr::null_mut();
        // SAFETY: the texts are terminated and outlive the call; there are no headers.
        self.check(unsafe {
            (self.create)(
                &mut program,
                source.as_ptr(),
                name.as_ptr(),
                0,
                ptr::null(),
                ptr::null(),
            )
        })?;
        let compiled = self.compile_program(program, &options);
        // SAFETY: the program was created above, and is not used again.
        unsafe { (self.destroy)(&mut program) };
        compiled
    }

    fn compile_program(
        &self,
        program: Program,
        options: &[CString],
    ) -> Result<(Vec<u8>, String), String> {
        let options: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        // SAFETY: the program is alive, and the options are as many as given.
        let code = unsafe { (self.compile)(program, options.len() as c_int, options.as_ptr()) };
        if code != COMPILATION_FAILED {
            self.check(code)?;
        }
        let log = self.output(program, self.log_size, self.log)?;
        let log = String::from_utf8_lossy(&log);
        let log = log.trim_end_matches('\0').trim().to_string();
        match code {
            COMPILATION_FAILED => Err(log),
            _ => Ok((self.output(program, self.cubin_size, self.cubin)?, log)),
        }
    }

    /// Fetches one of a program's outputs.
    fn output(
        &self,
        program: Program,
        size: unsafe extern "C" fn(Program, *mut usize) -> Code,
        get: unsafe extern "C" fn(Program, *mut c_char) -> Code,
    ) -> Result<Vec<u8>, String> {
        let mut bytes = 0;
        // SAFETY: the program is alive.
        self.check(unsafe { size(program, &mut bytes) })?;
        let mut output = vec![0u8; bytes];
        // SAFETY: the output has the size that the library asked for.
        self.check(unsafe { get(program, output.as_mut_ptr().cast()) })?;
        Ok(output)
    }

    fn check(&self, code: Code) -> Result<(), String> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: the function returns a static text for any code.
        let text = unsafe { CStr::from_ptr((self.error_string)(code)) };
        Err(text.to_string_lossy().into_owned())
    }
}

/// Architectures of NVIDIA's systems on a chip, whose code other cards do not run, nor the other way around.
const TEGRA: &[u32] = &[72, 87, 101, 110];

/// The last of some architectures whose code a card runs: of the same major version, and not newer.
fn target(architectures: &[u32], card: u32) -> Option<u32> {
    let runs = |built: u32| {
        let both = built / 10 == card / 10 && built < card;
        built == card || both && !TEGRA.contains(&built) && !TEGRA.contains(&card)
    };
    let running = architectures.iter().copied().filter(|built| runs(*built));
    running.max()
}

/// # Safety
///
/// The function is `nvrtcVersion`.
unsafe fn version(get: unsafe extern "C" fn(*mut c_int, *mut c_int) -> Code) -> Option<[c_int; 2]> {
    let (mut major, mut minor) = (0, 0);
    // SAFETY: both point to integers.
    let code = unsafe { get(&mut major, &mut minor) };
    (code == 0).then_some([major, minor])
}

/// # Safety
///
/// The functions are `nvrtcGetNumSupportedArchs` and `nvrtcGetSupportedArchs`.
unsafe fn architectures(
    count: unsafe extern "C" fn(*mut c_int) -> Code,
    get: unsafe extern "C" fn(*mut c_int) -> Code,
) -> Option<Vec<u32>> {
    let mut number = 0;
    // SAFETY: it points to an integer.
    if unsafe { count(&mut number) } != 0 {
        return None;
    }
    let mut architectures = vec![0; usize::try_from(number).ok()?];
    // SAFETY: there is room for as many as the library has.
    if unsafe { get(architectures.as_mut_ptr()) } != 0 {
        return None;
    }
    let architectures = architectures.into_iter().map(u32::try_from);
    architectures.collect::<Result<_, _>>().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_run_code_of_the_same_major_version_that_is_not_newer() {
        let known = [75, 80, 86, 87, 89, 90, 100, 101, 120];
        for (card, expected) in [
            (75, Some(75)),
            (86, Some(86)),
            (88, Some(86)),
            (87, Some(87)),
            (103, Some(100)),
            (121, Some(120)),
            (110, None),
            (70, None),
            (130, None),
        ] {
            assert_eq!(target(&known, card), expected, "{card}");
        }
        assert_eq!(target(&[80, 90], 87), None);
    }
}
