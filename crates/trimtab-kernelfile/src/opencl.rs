//! Kernels in OpenCL C, on any OpenCL of this machine. Parameters are `-D` definitions; times are the device's own.

use crate::job::{GivenArgument, GivenData, Job};
use crate::opencl_api as api;
use crate::opencl_api::{Api, Handle, SUCCESS, Status, meaning};
use crate::shim::define;
use crate::worker::{Refusal, Target};
use std::ffi::{CString, c_void};
use std::ptr::{null, null_mut};
use trimtab_study::{Failed, Fault};
use trimtab_tune::Stopwatch;
use trimtab_wisdom::files;

/// Programs that stay built: the point that is measured and the best so far.
const MAX_BUILT: usize = 4;
const MAX_SOURCE_BYTES: u64 = 16 << 20;
/// Bytes of what a compiler says that are kept.
const MAX_LOG: usize = 64 << 10;

struct Built {
    key: (String, String),
    program: Handle,
    kernel: Handle,
}

/// A device with a queue.
pub(crate) struct OpenCl {
    api: Api,
    device: Handle,
    context: Handle,
    queue: Handle,
    /// The most work items of a workgroup, along each axis, and bytes of its memory.
    limits: (usize, [usize; 3], u64),
    built: Vec<Built>,
    /// Bytes and memory of each argument; none where it has none of its own.
    arguments: Vec<(Vec<u8>, Handle)>,
}

/// A point's failure.
fn refused(fault: Fault, what: &str, status: Status) -> Refusal {
    Failed::new(fault, format!("{what}: {}", meaning(status))).into()
}

impl OpenCl {
    /// The first device, or the first whose name or platform contains the words.
    pub(crate) fn open(words: Option<&str>) -> Result<OpenCl, String> {
        let api = Api::load()?;
        let found = all_devices(&api)?;
        let words = words.map(str::to_lowercase);
        let is_meant = |name: &str| words.as_ref().is_none_or(|words| name.to_lowercase().contains(words));
        let Some((_, device)) = found.iter().find(|(name, _)| is_meant(name)) else {
            let known: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
            return Err(match (words, known.is_empty()) {
                (Some(words), false) => format!("no OpenCL device is called `{words}`; there are: {}", known.join(", ")),
                _ => "there is an OpenCL library, but no device; install a driver's, or Debian's `pocl-opencl-icd` (apt-get install), which runs on the processor".to_string(),
            });
        };
        let device = *device;
        let mut status = SUCCESS;
        // SAFETY: one device, which the library gave, no properties and no callback.
        let context = unsafe { (api.context)(null(), 1, &device, null(), null(), &mut status) };
        if status != SUCCESS {
            return Err(format!("the OpenCL device cannot be opened: {}", meaning(status)));
        }
        // SAFETY: a context and the device it is of.
        let queue = unsafe { (api.queue)(context, device, api::QUEUE_PROFILING, &mut status) };
        if status != SUCCESS {
            return Err(format!("the OpenCL device has no queue with times: {}", meaning(status)));
        }
        let mut most = [0usize; 1];
        let mut sides = [usize::MAX; 8];
        let mut memory = [0u64; 1];
        device_numbers(&api, device, api::DEVICE_MAX_WORK_GROUP_SIZE, &mut most);
        device_numbers(&api, device, api::DEVICE_MAX_WORK_ITEM_SIZES, &mut sides);
        device_numbers(&api, device, api::DEVICE_LOCAL_MEM_SIZE, &mut memory);
        let limits = (most[0], [sides[0], sides[1], sides[2]], memory[0]);
        Ok(OpenCl { api, device, context, queue, limits, built: Vec::new(), arguments: Vec::new() })
    }

    fn build_log(&self, program: Handle) -> Vec<u8> {
        let mut log = vec![0u8; MAX_LOG];
        let mut len = 0;
        // SAFETY: at most as many bytes are written as the buffer has; a longer log is an error, and the buffer stays empty.
        let status = unsafe {
            (self.api.build_info)(
                program,
                self.device,
                api::BUILD_LOG,
                log.len(),
                log.as_mut_ptr().cast(),
                &mut len,
            )
        };
        log.truncate(if status == SUCCESS { len.min(MAX_LOG) } else { 0 });
        log.retain(|byte| *byte != 0);
        log
    }

    fn build(&self, job: &Job, options: &str) -> Result<(Handle, Handle), Refusal> {
        let mut source = files::read(&job.source, MAX_SOURCE_BYTES).map_err(|error| {
            Failed::new(Fault::Compile, format!("{} cannot be read: {error}", job.source.display()))
        })?;
        // Never of no length: OpenCL takes that for a text that ends with a NUL, and would read on and on.
        source.push(b'\n');
        let (text, len) = (source.as_ptr().cast(), source.len());
        let mut status = SUCCESS;
        // SAFETY: one text of that length, which is copied before the call returns.
        let program = unsafe { (self.api.program)(self.context, 1, &text, &len, &mut status) };
        if status != SUCCESS {
            return Err(refused(Fault::Compile, "the source is not taken", status));
        }
        let no_nul = |_| Failed::new(Fault::Compile, "a value holds a NUL character");
        let words = CString::new(options).map_err(no_nul)?;
        // SAFETY: a program of this context for its one device; the words end with a NUL; no callback: the call returns when it is built.
        let status = unsafe { (self.api.build)(program, 1, &self.device, words.as_ptr(), null(), null()) };
        if status != SUCCESS {
            let log = self.build_log(program);
            // SAFETY: nobody else holds it.
            unsafe { (self.api.release_program)(program) };
            let message = format!("it cannot be compiled: {}", meaning(status));
            return Err(Failed::new(Fault::Compile, message).with_output(&log).into());
        }
        let entry = CString::new(job.entry.as_str()).map_err(no_nul)?;
        let mut status = SUCCESS;
        // SAFETY: a program that was built, and a name that ends with a NUL.
        let kernel = unsafe { (self.api.kernel)(program, entry.as_ptr(), &mut status) };
        if status != SUCCESS {
            // SAFETY: nobody else holds it.
            unsafe { (self.api.release_program)(program) };
            return Err(Refusal::All(format!("`{}`: {}", job.entry, meaning(status))));
        }
        Ok((program, kernel))
    }

    /// A number that is told of a kernel on this device.
    fn kernel_number(&self, kernel: Handle, what: u32) -> Option<u64> {
        let mut number = 0u64;
        // SAFETY: these are a `size_t` or a `cl_ulong`, eight bytes at most.
        let status = unsafe {
            (self.api.work_group_info)(kernel, self.device, what, 8, (&raw mut number).cast(), null_mut())
        };
        (status == SUCCESS).then_some(number)
    }

    /// Drivers crash, or write nothing, where these are broken.
    fn check_limits(&self, job: &Job, kernel: Handle) -> Result<(), Refusal> {
        let mut count = 0u32;
        // SAFETY: the number of arguments is a `cl_uint`.
        let status = unsafe {
            (self.api.kernel_info)(kernel, api::KERNEL_NUM_ARGS, 4, (&raw mut count).cast(), null_mut())
        };
        if status == SUCCESS && count as usize != job.arguments.len() {
            let reason = format!(
                "`{}` takes {count} arguments, and [[arguments]] has {}",
                job.entry,
                job.arguments.len()
            );
            return Err(Refusal::All(reason));
        }
        let local = job.arguments.iter().map(|given| match given.data {
            GivenData::Local(_) => given.bytes() as u64,
            _ => 0,
        });
        let memory = self.kernel_number(kernel, api::KERNEL_LOCAL_MEM_SIZE).unwrap_or(0) + local.sum::<u64>();
        let mut measures = vec![("bytes of workgroup memory are", memory, self.limits.2)];
        if let Some(workgroup) = job.workgroup {
            let items = workgroup.iter().map(|side| u64::from(*side)).product::<u64>();
            let most = self.kernel_number(kernel, api::KERNEL_WORK_GROUP_SIZE).unwrap_or(u64::MAX);
            measures.push(("a workgroup has", items, most.min(self.limits.0 as u64)));
            for (side, most) in workgroup.iter().zip(self.limits.1) {
                measures.push(("a side of a workgroup is", u64::from(*side), most as u64));
            }
        }
        match measures.into_iter().find(|(_, found, most)| found > most) {
            Some((what, found, most)) => {
                Err(Failed::new(Fault::Start, format!("{what} {found}, the device's limit is {most}")).into())
            }
            None => Ok(()),
        }
    }
}

/// Every device, named with its platform.
fn all_devices(api: &Api) -> Result<Vec<(String, Handle)>, String> {
    let mut platforms = [null_mut(); 16];
    let mut count = 0u32;
    // SAFETY: at most as many are written as there is room for.
    let status = unsafe { (api.platforms)(platforms.len() as u32, platforms.as_mut_ptr(), &mut count) };
    // -1001 is the loader's: no driver is installed.
    if status != SUCCESS && status != -1001 {
        return Err(format!("OpenCL's platforms cannot be listed: {}", meaning(status)));
    }
    let mut found = Vec::new();
    for platform in platforms.iter().take(count as usize) {
        let mut devices = [null_mut(); 16];
        let mut count = 0u32;
        // SAFETY: a platform the library gave, and room for as many devices as are asked for.
        let status = unsafe {
            (api.devices)(*platform, api::ALL_DEVICES, devices.len() as u32, devices.as_mut_ptr(), &mut count)
        };
        if status != SUCCESS {
            continue;
        }
        // SAFETY: the text is written into as many bytes as are said.
        let of_platform = text(|len, at, told| unsafe {
            (api.platform_info)(*platform, api::PLATFORM_NAME, len, at, told)
        });
        for device in devices.iter().take(count as usize) {
            // SAFETY: as above.
            let name =
                text(|len, at, told| unsafe { (api.device_info)(*device, api::DEVICE_NAME, len, at, told) });
            found.push((format!("{name} ({of_platform})"), *device));
        }
    }
    Ok(found)
}

/// A text that is told.
fn text(ask: impl FnOnce(usize, *mut c_void, *mut usize) -> Status) -> String {
    let mut bytes = [0u8; 512];
    let mut len = 0;
    let status = ask(bytes.len(), bytes.as_mut_ptr().cast(), &mut len);
    let told = if status == SUCCESS { &bytes[..len.min(bytes.len())] } else { &[] };
    String::from_utf8_lossy(told).trim_end_matches('\0').trim().to_string()
}

/// Numbers that are told of a device; those it does not tell stay as they are.
fn device_numbers<T: Copy>(api: &Api, device: Handle, what: u32, numbers: &mut [T]) {
    let len = std::mem::size_of_val(numbers);
    // SAFETY: at most as many bytes are written as the numbers have; they are plain integers.
    unsafe { (api.device_info)(device, what, len, numbers.as_mut_ptr().cast(), null_mut()) };
}

impl Target for OpenCl {
    fn load(&mut self, job: &Job) -> Result<(), Refusal> {
        let mut words: Vec<String> = job.defines.iter().map(|(name, value)| define(name, value)).collect();
        if let Some(spaced) = words.iter().find(|word| word.contains(char::is_whitespace)) {
            let message =
                format!("`{spaced}` holds a space, which OpenCL's compilers take for the end of the word");
            return Err(Failed::new(Fault::Compile, message).into());
        }
        words.extend(job.flags.iter().cloned());
        if let Some(dir) = job.source.parent().and_then(|dir| dir.to_str()).filter(|dir| !dir.contains(' ')) {
            words.push(format!("-I{dir}"));
        }
        let key = (job.source.display().to_string() + &job.entry, words.join(" "));
        if let Some(at) = self.built.iter().position(|built| built.key == key) {
            let found = self.built.remove(at);
            self.built.insert(0, found);
        } else {
            let (program, kernel) = self.build(job, &key.1)?;
            self.built.insert(0, Built { key, program, kernel });
            for old in self.built.drain(self.built.len().min(MAX_BUILT)..) {
                // SAFETY: nobody else holds them, and everything that used them has ended: each launch is waited for.
                unsafe {
                    (self.api.release_kernel)(old.kernel);
                    (self.api.release_program)(old.program);
                }
            }
        }
        self.check_limits(job, self.built[0].kernel)
    }

    fn write(&mut self, at: usize, given: &GivenArgument, bytes: &[u8]) -> Result<(), Refusal> {
        let is_memory = matches!(given.data, GivenData::Array { .. });
        let fits = self
            .arguments
            .get(at)
            .is_some_and(|(known, handle)| known.len() == bytes.len() && handle.is_null() != is_memory);
        if !fits {
            for (_, handle) in
                self.arguments.drain(at.min(self.arguments.len())..).filter(|(_, handle)| !handle.is_null())
            {
                // SAFETY: nobody else holds it, and nothing runs.
                unsafe { (self.api.release_buffer)(handle) };
            }
            let mut handle = null_mut();
            if is_memory {
                let mut status = SUCCESS;
                // SAFETY: no memory of ours is given to it.
                handle = unsafe {
                    (self.api.buffer)(self.context, api::READ_WRITE, bytes.len(), null(), &mut status)
                };
                if status != SUCCESS {
                    return Err(refused(Fault::Start, &format!("memory for `{}`", given.name), status));
                }
            }
            self.arguments.push((vec![0; bytes.len()], handle));
        }
        let (held, handle) = &mut self.arguments[at];
        if !is_memory {
            held.copy_from_slice(bytes);
            return Ok(());
        }
        // SAFETY: the buffer has as many bytes, and the call waits until they were copied (the third argument).
        let status = unsafe {
            (self.api.write)(
                self.queue,
                *handle,
                1,
                0,
                bytes.len(),
                bytes.as_ptr().cast(),
                0,
                null(),
                null_mut(),
            )
        };
        if status == SUCCESS {
            Ok(())
        } else {
            Err(refused(Fault::Start, "an argument cannot be written", status))
        }
    }

    fn launch(&mut self, job: &Job) -> Result<f64, Refusal> {
        let Some(built) = self.built.first() else {
            return Err(Failed::new(Fault::Start, "no kernel is built").into());
        };
        for (at, (given, (bytes, handle))) in job.arguments.iter().zip(&self.arguments).enumerate() {
            let (len, value): (usize, *const c_void) = match given.data {
                GivenData::Array { .. } => (size_of::<Handle>(), (handle as *const Handle).cast()),
                GivenData::Values(_) => (bytes.len(), bytes.as_ptr().cast()),
                GivenData::Local(_) => (given.bytes(), null()),
            };
            // SAFETY: the value has that many bytes and is copied; a null one asks for memory of the workgroup.
            let status = unsafe { (self.api.argument)(built.kernel, at as u32, len, value) };
            if status != SUCCESS {
                return Err(refused(Fault::Start, &format!("the argument `{}`", given.name), status));
            }
        }
        let workgroup = job.workgroup.map(|sides| sides.map(|side| side as usize));
        let items: [usize; 3] =
            std::array::from_fn(|axis| job.groups[axis] as usize * workgroup.map_or(1, |sides| sides[axis]));
        let local = workgroup.as_ref().map_or(null(), |sides| sides.as_ptr());
        let mut event = null_mut();
        let watch = Stopwatch::start();
        // SAFETY: three sizes each, a kernel with all its arguments set, and room for one event.
        let status = unsafe {
            (self.api.launch)(
                self.queue,
                built.kernel,
                3,
                null(),
                items.as_ptr(),
                local,
                0,
                null(),
                &mut event,
            )
        };
        if status != SUCCESS {
            return Err(refused(Fault::Start, "it cannot be launched", status));
        }
        // SAFETY: one event, which the launch gave.
        let status = unsafe { (self.api.wait)(1, &event) };
        let wall = watch.elapsed().0.max(1);
        let times = [api::PROFILING_START, api::PROFILING_END].map(|what| {
            let mut time = 0u64;
            // SAFETY: a `cl_ulong`, eight bytes.
            let status = unsafe { (self.api.profiling)(event, what, 8, (&raw mut time).cast(), null_mut()) };
            (status == SUCCESS).then_some(time)
        });
        // SAFETY: nobody else holds it.
        unsafe { (self.api.release_event)(event) };
        if status != SUCCESS {
            return Err(refused(Fault::Exit, "it failed", status));
        }
        let nanos = match times {
            // Not longer than it was waited for: a clock that says so is not believed.
            [Some(start), Some(end)] if end > start && end - start <= wall => end - start,
            _ => wall,
        };
        Ok(nanos as f64 / 1e9)
    }

    fn read(&mut self, at: usize, bytes: &mut [u8]) -> Result<(), Refusal> {
        let Some((_, handle)) = self.arguments.get(at).filter(|(_, handle)| !handle.is_null()) else {
            return Ok(());
        };
        // SAFETY: the buffer has as many bytes, and the call waits until they were copied (the third argument).
        let status = unsafe {
            (self.api.read)(
                self.queue,
                *handle,
                1,
                0,
                bytes.len(),
                bytes.as_mut_ptr().cast(),
                0,
                null(),
                null_mut(),
            )
        };
        if status == SUCCESS { Ok(()) } else { Err(refused(Fault::Start, "a result cannot be read", status)) }
    }
}
