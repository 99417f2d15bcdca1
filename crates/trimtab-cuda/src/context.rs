//! One device in use: modules, launches in order on one stream, times.

use crate::api::Handle;
use crate::driver::{DeviceInfo, Driver};
use crate::error::{CudaError, code};
use crate::occupancy::{Occupancy, Usage};
use crate::staging::Staging;
use std::ffi::{CString, c_int, c_uint, c_void};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use trimtab_core::Nanos;
use trimtab_tune::Stopwatch;

/// Below this a wait keeps asking; above it sleeps in between.
const BUSY: Nanos = Nanos(200_000);
/// How long it sleeps.
const NAP: Duration = Duration::from_micros(50);

/// Numbers of the driver's attributes of functions.
mod attribute {
    pub(super) const MAX_THREADS: u32 = 0;
    pub(super) const SHARED_BYTES: u32 = 1;
    pub(super) const LOCAL_BYTES: u32 = 3;
    pub(super) const REGISTERS: u32 = 4;
    pub(super) const MAX_DYNAMIC_SHARED: u32 = 8;
}

/// A device that was opened: its primary context, which others in this process share, and a stream of our own.
pub struct Context {
    driver: Arc<Driver>,
    info: DeviceInfo,
    handle: Handle,
    stream: Handle,
    lost: OnceLock<CudaError>,
    /// What data goes through on its way.
    pub(crate) staging: Staging,
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Context({}, sm_{})", self.info.name, self.info.capability)
    }
}

/// A module on the device, unloaded with this.
#[derive(Debug)]
pub struct Module {
    context: Arc<Context>,
    handle: Handle,
}

/// What the compiler made of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resources {
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of shared memory it declares.
    pub shared_bytes: u32,
    /// Bytes of local memory of a thread: arrays and what did not fit into registers.
    pub local_bytes: u32,
    /// Threads of a block it can be launched with.
    pub max_threads: u32,
}

/// A kernel of a module that is loaded.
#[derive(Clone, Debug)]
pub struct Function {
    module: Arc<Module>,
    handle: Handle,
    resources: Resources,
}

impl Function {
    pub(crate) fn handle(&self) -> Handle {
        self.handle
    }

    /// What the compiler made of it.
    pub fn resources(&self) -> Resources {
        self.resources
    }

    /// How full a multiprocessor gets with blocks of so many threads and so much shared memory beside the declared. The compiler does not tell
    /// its barriers; one is assumed.
    pub fn occupancy(&self, threads: u32, dynamic_shared: u32) -> Occupancy {
        let Resources { registers, shared_bytes, .. } = self.resources;
        let usage = Usage {
            threads,
            registers,
            shared_bytes: shared_bytes.saturating_add(dynamic_shared),
            barriers: 1,
        };
        self.module.context.info.multiprocessor.occupancy(&usage)
    }
}

/// A parameter of a launch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Argument {
    /// An address on the device.
    Address(u64),
    /// An integer of 32 bits.
    U32(u32),
    /// An integer of 64 bits.
    U64(u64),
    /// A number.
    F32(f32),
    /// A number.
    F64(f64),
    /// A value of up to eight bytes, as it lies in memory, at their beginning.
    Bytes([u8; 8]),
}

impl Context {
    /// Opens a device.
    pub fn open(driver: &Arc<Driver>, ordinal: u32) -> Result<Arc<Context>, CudaError> {
        let info = driver.info(ordinal)?;
        let mut context = Context {
            driver: Arc::clone(driver),
            info,
            handle: 0,
            stream: 0,
            lost: OnceLock::new(),
            staging: Staging::default(),
        };
        let mut device: c_int = 0;
        // SAFETY: an ordinal that is not there is an error.
        context.call("cuDeviceGet", |f| unsafe { (f.device)(&mut device, ordinal as c_int) })?;
        let mut handle = 0;
        // SAFETY: retained once, released when this is dropped.
        context.call("cuDevicePrimaryCtxRetain", |f| unsafe { (f.context_retain)(&mut handle, device) })?;
        context.handle = handle;
        context.stream = context.new_stream(0)?;
        Ok(Arc::new(context))
    }

    /// A stream, which its maker destroys.
    pub(crate) fn new_stream(&self, flags: c_uint) -> Result<Handle, CudaError> {
        let mut stream = 0;
        // SAFETY: the context is this thread's.
        self.call("cuStreamCreate", |f| unsafe { (f.stream_create)(&mut stream, flags) })?;
        Ok(stream)
    }

    pub(crate) fn destroy_stream(&self, stream: Handle) {
        // SAFETY: made by this context, and destroyed once by its maker. What fails costs a handle, and there is nobody to tell.
        let _ = self.call("cuStreamDestroy", |f| unsafe { (f.stream_destroy)(stream) });
    }

    /// Makes it the context of this thread, for libraries that ask the thread.
    pub(crate) fn enter(&self) -> Result<(), CudaError> {
        // Every call enters before it is made.
        self.call("cuCtxSetCurrent", |_| code::SUCCESS)
    }

    /// Where launches are put.
    pub(crate) fn stream(&self) -> Handle {
        self.stream
    }

    /// What the device told.
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// The error that made the device useless to this process, if one did.
    pub fn lost(&self) -> Option<&CudaError> {
        self.lost.get()
    }

    /// Loads PTX that ends with a zero, or machine code.
    pub fn load(self: &Arc<Context>, image: &[u8]) -> Result<Arc<Module>, CudaError> {
        let is_code = image.starts_with(b"\x7fELF");
        if !is_code && !image.contains(&0) {
            return Err(self.refuse("cuModuleLoadData"));
        }
        let mut handle = 0;
        // SAFETY: machine code says how long it is, text ends with a zero; unloaded once, when the module is dropped.
        self.call("cuModuleLoadData", |f| unsafe { (f.module_load)(&mut handle, image.as_ptr().cast()) })?;
        Ok(Arc::new(Module { context: Arc::clone(self), handle }))
    }

    /// A kernel of a module.
    pub fn function(&self, module: &Arc<Module>, name: &str) -> Result<Function, CudaError> {
        let text = CString::new(name).map_err(|_| self.refuse("cuModuleGetFunction"))?;
        let mut handle = 0;
        // SAFETY: the module is loaded, and the name ends with a zero.
        self.call("cuModuleGetFunction", |f| unsafe {
            (f.module_function)(&mut handle, module.handle, text.as_ptr())
        })?;
        let ask = |attribute: u32| -> Result<u32, CudaError> {
            let mut value: c_int = 0;
            // SAFETY: asks for a number.
            self.call("cuFuncGetAttribute", |f| unsafe {
                (f.function_attribute)(&mut value, attribute, handle)
            })?;
            Ok(value.max(0) as u32)
        };
        let resources = Resources {
            registers: ask(attribute::REGISTERS)?,
            shared_bytes: ask(attribute::SHARED_BYTES)?,
            local_bytes: ask(attribute::LOCAL_BYTES)?,
            max_threads: ask(attribute::MAX_THREADS)?,
        };
        Ok(Function { module: Arc::clone(module), handle, resources })
    }

    /// Lets a kernel have more dynamic shared memory than every kernel may have unasked.
    pub fn allow_shared(&self, function: &Function, bytes: u32) -> Result<(), CudaError> {
        let (handle, bytes) = (function.handle, bytes as c_int);
        // SAFETY: sets a number; one the device does not have is an error.
        self.call("cuFuncSetAttribute", |f| unsafe {
            (f.function_set)(handle, attribute::MAX_DYNAMIC_SHARED, bytes)
        })
    }

    /// Blocks of a kernel a multiprocessor holds, as the driver counts them.
    pub fn blocks_at_once(
        &self,
        function: &Function,
        threads: u32,
        dynamic_shared: u32,
    ) -> Result<u32, CudaError> {
        let mut blocks: c_int = 0;
        // SAFETY: asks for a number.
        self.call("cuOccupancyMaxActiveBlocksPerMultiprocessor", |f| unsafe {
            (f.occupancy)(&mut blocks, function.handle, threads as c_int, dynamic_shared as usize)
        })?;
        Ok(blocks.max(0) as u32)
    }

    /// Launches a kernel; it is over when [`Context::wait`] says so.
    ///
    /// # Safety
    /// The arguments are those the kernel declares, and everything it reads and writes through them is allocated on this device until it is over.
    pub unsafe fn launch(
        &self,
        function: &Function,
        grid: [u32; 3],
        block: [u32; 3],
        dynamic_shared: u32,
        arguments: &[Argument],
    ) -> Result<(), CudaError> {
        // SAFETY: the caller's promise.
        unsafe { self.launch_on(self.stream, function, (grid, block, dynamic_shared), arguments) }
    }

    /// The same on a stream of the caller's.
    ///
    /// # Safety
    /// As [`Context::launch`]; the stream is of this context.
    pub(crate) unsafe fn launch_on(
        &self,
        stream: Handle,
        function: &Function,
        (grid, block, dynamic_shared): ([u32; 3], [u32; 3], u32),
        arguments: &[Argument],
    ) -> Result<(), CudaError> {
        let mut words: Vec<[u8; 8]> = arguments.iter().map(Argument::bytes).collect();
        let mut pointers: Vec<*mut c_void> = words.iter_mut().map(|word| word.as_mut_ptr().cast()).collect();
        let ([gx, gy, gz], [bx, by, bz]) = (grid, block);
        let (handle, shared): (Handle, c_uint) = (function.handle, dynamic_shared);
        // SAFETY: the caller's promise; values are copied before the call returns.
        self.call("cuLaunchKernel", |f| unsafe {
            (f.launch)(
                handle,
                gx,
                gy,
                gz,
                bx,
                by,
                bz,
                shared,
                stream,
                pointers.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        })
    }

    /// Waits until every launch made before is over. A limit that passes is an error that [`CudaError::is_not_ready`]; what runs goes on.
    pub fn wait(&self, limit: Nanos) -> Result<(), CudaError> {
        // SAFETY: asks about a stream that lives as long as this.
        until_ready(limit, || self.call("cuStreamQuery", |f| unsafe { (f.stream_query)(self.stream) }))
    }

    /// What the device needs for the launches a function makes, by its own clock.
    pub fn timed(
        &self,
        limit: Nanos,
        launches: impl FnOnce() -> Result<(), CudaError>,
    ) -> Result<Nanos, CudaError> {
        let (begin, end) = (Event::new(self)?, Event::new(self)?);
        begin.record()?;
        launches()?;
        end.record()?;
        self.wait(limit)?;
        let mut milliseconds = 0f32;
        // SAFETY: both events were recorded and are over.
        self.call("cuEventElapsedTime", |f| unsafe {
            (f.event_elapsed)(&mut milliseconds, begin.handle, end.handle)
        })?;
        Ok(Nanos((f64::from(milliseconds.max(0.0)) * 1e6) as u64))
    }

    pub(crate) fn refuse(&self, call: &'static str) -> CudaError {
        CudaError { call, code: code::INVALID_VALUE, name: "refused before the driver was asked".to_string() }
    }

    /// Makes a call in this context. After one that cost the device, none is made.
    pub(crate) fn call(
        &self,
        name: &'static str,
        call: impl FnOnce(&crate::api::Functions) -> u32,
    ) -> Result<(), CudaError> {
        if let Some(lost) = self.lost.get() {
            return Err(lost.clone());
        }
        let functions = &self.driver.functions;
        if self.handle != 0 {
            // SAFETY: a context that is retained as long as this lives.
            let answer = unsafe { (functions.context_enter)(self.handle) };
            self.noted(self.driver.check("cuCtxSetCurrent", answer))?;
        }
        self.noted(self.driver.check(name, call(functions)))
    }

    fn noted(&self, answer: Result<(), CudaError>) -> Result<(), CudaError> {
        if let Err(error) = &answer
            && error.is_lost()
        {
            let _ = self.lost.set(error.clone());
        }
        answer
    }
}

impl Argument {
    pub(crate) fn bytes(&self) -> [u8; 8] {
        let short = |bytes: [u8; 4]| [bytes[0], bytes[1], bytes[2], bytes[3], 0, 0, 0, 0];
        match self {
            Argument::Address(value) | Argument::U64(value) => value.to_ne_bytes(),
            Argument::U32(value) => short(value.to_ne_bytes()),
            Argument::F32(value) => short(value.to_ne_bytes()),
            Argument::F64(value) => value.to_ne_bytes(),
            Argument::Bytes(bytes) => *bytes,
        }
    }
}

/// A moment on the device.
struct Event<'a> {
    context: &'a Context,
    handle: Handle,
}

impl Context {
    /// A moment to record and to ask about, which its maker destroys.
    pub(crate) fn new_event(&self) -> Result<Handle, CudaError> {
        let mut handle = 0;
        // SAFETY: the context is this thread's.
        self.call("cuEventCreate", |f| unsafe { (f.event_create)(&mut handle, 0) })?;
        Ok(handle)
    }

    pub(crate) fn record(&self, event: Handle) -> Result<(), CudaError> {
        let stream = self.stream;
        // SAFETY: both are of this context and live.
        self.call("cuEventRecord", |f| unsafe { (f.event_record)(event, stream) })
    }

    /// Waits until what was put into the queue before a moment is over.
    pub(crate) fn await_event(&self, event: Handle, limit: Nanos) -> Result<(), CudaError> {
        // SAFETY: asks about an event that lives.
        until_ready(limit, || self.call("cuEventQuery", |f| unsafe { (f.event_query)(event) }))
    }

    pub(crate) fn destroy_event(&self, event: Handle) {
        // SAFETY: made by this context and destroyed once. What fails costs a handle, and there is nobody to tell.
        let _ = self.call("cuEventDestroy", |f| unsafe { (f.event_destroy)(event) });
    }
}

/// Asks until the answer is another than that it is not over yet, or the limit passed.
fn until_ready(limit: Nanos, mut ask: impl FnMut() -> Result<(), CudaError>) -> Result<(), CudaError> {
    let watch = Stopwatch::start();
    loop {
        let (answer, waited) = (ask(), watch.elapsed());
        match answer {
            Err(error) if error.is_not_ready() && waited < limit => {}
            answer => return answer,
        }
        if waited > BUSY { std::thread::sleep(NAP) } else { std::thread::yield_now() }
    }
}

impl<'a> Event<'a> {
    fn new(context: &'a Context) -> Result<Event<'a>, CudaError> {
        Ok(Event { context, handle: context.new_event()? })
    }

    fn record(&self) -> Result<(), CudaError> {
        self.context.record(self.handle)
    }
}

impl Drop for Event<'_> {
    fn drop(&mut self) {
        self.context.destroy_event(self.handle);
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: loaded by this context and unloaded once, after the last function of it is dropped.
        let _ = self.context.call("cuModuleUnload", |f| unsafe { (f.module_unload)(self.handle) });
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        self.staging.release(self);
        if self.stream != 0 {
            self.destroy_stream(self.stream);
        }
        if self.handle != 0 {
            let mut device: c_int = 0;
            // SAFETY: asks for a number.
            let known = unsafe { (self.driver.functions.device)(&mut device, self.info.ordinal as c_int) };
            if known == code::SUCCESS {
                // SAFETY: retained once by this.
                unsafe { (self.driver.functions.context_release)(device) };
            }
        }
    }
}
