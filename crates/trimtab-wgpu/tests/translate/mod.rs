//! Every kernel of an operation × every legal point × a list of problems on hand-made adapters: programs keep the limits,
//! texts say what the steps say of them, and translate to SPIR-V, MSL and HLSL. No adapter is needed.

use naga::back::{hlsl, msl, spv};
use naga::valid::{Capabilities, SubgroupOperationSet, ValidationFlags, Validator};
use std::collections::HashSet;
use trimtab_core::{
    AdapterClass, AdapterFacts, Bytes, DeviceFacts, DeviceKind, Fingerprint, Habits, Operation, Problem,
};
use trimtab_wgpu::{Dispatch, Needs, PARAMS_BINDING, Program, binding_number, full_text, kernels};

/// Checks and translates them all; panics on the first that is not right. Returns how many different texts and constants
/// were translated.
pub fn all(operation: Operation, problems: &[&str]) -> usize {
    let mut seen = HashSet::new();
    let kernels = kernels::all();
    for device in adapters() {
        let adapter = device.adapter.as_deref().unwrap();
        for text in problems {
            let problem: Problem = text.parse().unwrap();
            assert_eq!(problem.operation(), operation, "{text}");
            for kernel in kernels.iter().filter(|kernel| kernel.info().operation == operation) {
                let space = kernel.space(&problem, &device);
                let declined = kernel.declines(&problem, &device);
                let name = kernel.info().name;
                assert_eq!(
                    space.points().is_empty(),
                    declined.is_some(),
                    "{} {name} {text} {declined:?}",
                    device.id
                );
                let mut programs: Vec<Program> = Vec::new();
                for point in space.points() {
                    let what = format!("{} {name} {} {text}", device.id, space.name(point));
                    let program = Program::of(kernel.as_ref(), &problem, point, adapter).expect(&what);
                    assert_eq!(program.check(adapter), Ok(()), "{what}");
                    // The same program under two names would be measured twice.
                    assert!(program.steps.is_empty() || !programs.contains(&program), "twins: {what}");
                    for step in &program.steps {
                        let constants: Vec<_> =
                            step.constants.iter().map(|(name, value)| (*name, value.to_bits())).collect();
                        if seen.insert((step.text.to_string(), constants)) {
                            translate(step, &what);
                        }
                    }
                    programs.push(program);
                }
            }
        }
    }
    seen.len()
}

/// One text with its constants.
fn translate(step: &Dispatch, what: &str) {
    let text = full_text(&step.text, step.needs, false);
    let module = naga::front::wgsl::parse_str(&text)
        .unwrap_or_else(|error| panic!("{what}\n{}", error.emit_to_string(&text)));
    let mut validator = validator(step.needs);
    let info = validator.validate(&module).unwrap_or_else(|error| panic!("{what}: {error:?}"));
    let constants = step.constants.iter().map(|(name, value)| ((*name).to_string(), *value)).collect();
    let main = Some((naga::ShaderStage::Compute, "main"));
    let (module, info) = naga::back::pipeline_constants::process_overrides(&module, &info, main, &constants)
        .unwrap_or_else(|error| panic!("{what}: {error:?}"));
    let [entry] = module.entry_points.as_slice() else { panic!("{what}: not one entry point") };
    assert_eq!(entry.workgroup_size, step.workgroup, "{what}");
    assert_eq!(workgroup_bytes(&module), step.workgroup_bytes, "{what}");
    assert_bound(&module, step, what);

    let options = spv::Options { lang_version: (1, 3), ..spv::Options::default() };
    let words = spv::write_vec(&module, &info, &options, None);
    assert!(words.is_ok_and(|words| words.len() > 5), "SPIR-V: {what}");
    // Metal has no 64-bit floats: no Metal adapter gets such a text.
    if !step.needs.f64 {
        let options = msl::Options { lang_version: (2, 4), ..msl::Options::default() };
        let written = msl::write_string(&module, &info, &options, &msl::PipelineOptions::default());
        let (text, names) = written.unwrap_or_else(|error| panic!("MSL: {what}: {error:?}"));
        assert!(names.entry_point_names.iter().all(Result::is_ok) && text.contains("kernel"), "MSL: {what}");
    }
    let options = hlsl::Options { shader_model: hlsl::ShaderModel::V6_2, ..hlsl::Options::default() };
    let mut text = String::new();
    let pipeline = hlsl::PipelineOptions::default();
    let written = hlsl::Writer::new(&mut text, &options, &pipeline).write(&module, &info, None);
    let names = written.unwrap_or_else(|error| panic!("HLSL: {what}: {error:?}"));
    assert!(names.entry_point_names.iter().all(Result::is_ok), "HLSL: {what}");
    assert!(text.contains("numthreads"), "HLSL: {what}");
}

/// Takes what the step says it needs and nothing else: a plain text must do with the core of WGSL.
fn validator(needs: Needs) -> Validator {
    let mut capabilities = Capabilities::empty();
    capabilities.set(Capabilities::SHADER_FLOAT16, needs.f16);
    capabilities.set(Capabilities::FLOAT64, needs.f64);
    capabilities.set(Capabilities::SUBGROUP, needs.subgroups);
    let mut validator = Validator::new(ValidationFlags::all(), capabilities);
    if needs.subgroups {
        let all = SubgroupOperationSet::all();
        validator.subgroup_stages(naga::valid::ShaderStages::COMPUTE).subgroup_operations(all);
    }
    validator
}

/// What the module declares in workgroup memory.
fn workgroup_bytes(module: &naga::Module) -> u32 {
    let mut layouter = naga::proc::Layouter::default();
    layouter.update(module.to_ctx()).unwrap();
    let variables = module.global_variables.iter().map(|(_, variable)| variable);
    let shared = variables.filter(|variable| variable.space == naga::AddressSpace::WorkGroup);
    shared.map(|variable| layouter[variable.ty].size).sum()
}

/// The module's buffers are the step's bindings, in their order, and written where the step says so.
fn assert_bound(module: &naga::Module, step: &Dispatch, what: &str) {
    let mut declared = Vec::new();
    for (_, variable) in module.global_variables.iter() {
        let Some(place) = &variable.binding else { continue };
        assert_eq!(place.group, 0, "{what}");
        match variable.space {
            naga::AddressSpace::Uniform => {
                assert_eq!(place.binding, PARAMS_BINDING, "{what}");
                assert!(!step.params.is_empty(), "{what}: parameters that are not given");
                let size = module.types[variable.ty].inner.size(module.to_ctx());
                let given = 4 * step.params.len().next_multiple_of(4) as u32;
                assert!(size <= given, "{what}: parameters of {size} bytes, given {given}");
            }
            naga::AddressSpace::Storage { access } => {
                declared.push((place.binding, access.contains(naga::StorageAccess::STORE)));
            }
            space => panic!("{what}: a binding in {space:?}"),
        }
    }
    declared.sort_unstable();
    for (number, writes) in declared {
        let binding = (0..).zip(&step.bindings).find(|(at, _)| binding_number(*at) == number);
        let binding = binding.map(|(_, binding)| binding);
        assert_eq!(binding.map(|binding| binding.writes), Some(writes), "{what}: binding {number}");
    }
}

/// Hand-made adapters: software like lavapipe, what every browser has, Apple's, a card.
pub fn adapters() -> Vec<DeviceFacts> {
    let software = AdapterFacts {
        class: AdapterClass::Software,
        backend: "vulkan".to_string(),
        driver: "made up".to_string(),
        driver_info: "1".to_string(),
        max_invocations: 1024,
        max_workgroup: [1024, 1024, 1024],
        max_groups: 65_535,
        workgroup_memory: Bytes(32 << 10),
        max_binding: Bytes(128 << 20),
        max_buffer: Bytes((2 << 30) - 1),
        offset_alignment: 16,
        subgroup: Some((8, 8)),
        f16: true,
        f64: true,
        timestamps: true,
        unified_memory: true,
        pipeline_cache: true,
    };
    let browser = AdapterFacts {
        class: AdapterClass::Unknown,
        backend: "webgpu".to_string(),
        max_invocations: 256,
        max_workgroup: [256, 256, 64],
        workgroup_memory: Bytes(16 << 10),
        max_buffer: Bytes(256 << 20),
        offset_alignment: 256,
        subgroup: None,
        f16: false,
        f64: false,
        timestamps: false,
        unified_memory: false,
        pipeline_cache: false,
        ..software.clone()
    };
    let metal = AdapterFacts {
        class: AdapterClass::Integrated,
        backend: "metal".to_string(),
        max_binding: Bytes((4 << 30) - 4),
        max_buffer: Bytes(8 << 30),
        offset_alignment: 32,
        subgroup: Some((32, 32)),
        f64: false,
        pipeline_cache: false,
        ..software.clone()
    };
    let card = AdapterFacts {
        class: AdapterClass::Discrete,
        max_workgroup: [1024, 1024, 64],
        workgroup_memory: Bytes(48 << 10),
        max_binding: Bytes((2 << 30) - 1),
        max_buffer: Bytes(16 << 30),
        offset_alignment: 32,
        subgroup: Some((32, 64)),
        unified_memory: false,
        ..software.clone()
    };
    [("software", software), ("browser", browser), ("metal", metal), ("card", card)]
        .map(|(id, adapter)| DeviceFacts {
            id: id.to_string(),
            name: id.to_string(),
            kind: DeviceKind::Gpu,
            habits: Habits::GPU,
            fingerprint: Fingerprint(format!("gpu/{id}")),
            cores: None,
            threads: 1,
            caches: Vec::new(),
            vector_bytes: None,
            features: Vec::new(),
            numa_nodes: None,
            memory: None,
            adapter: Some(Box::new(adapter)),
            notes: Vec::new(),
        })
        .into()
}
