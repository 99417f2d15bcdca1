//! What is not modelled is refused when it is loaded, with the line; damaged text is an error, never a panic.
#![expect(clippy::unwrap_used, reason = "helpers of tests; clippy exempts only functions marked as tests")]

mod support;

use support::*;
use trimtab_ptx::{FaultKind, GridLaunch, Module};

fn kernel(body: &str) -> String {
    format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 out)\n{{\n.reg .b32 %r<9>;\n.reg .b64 %rd<9>;\n\
         .reg .f32 %f<9>;\n.reg .pred %p<9>;\n.reg .b16 %h<9>;\n{body}\nret;\n}}\n"
    )
}

#[test]
fn what_is_not_modelled_is_named() {
    for (body, part) in [
        (
            "tex.2d.v4.f32.s32 {%f1, %f2, %f3, %f4}, [out, {%f1, %f2}];",
            "the instruction `tex.2d.v4.f32.s32` is not modelled",
        ),
        ("add.sat.s32 %r1, %r2, %r3;", "`.sat` is not modelled"),
        ("wgmma.fence.sync.aligned;", "`wgmma.fence.sync.aligned` is not modelled"),
        ("frobnicate.b32 %r1, %r2;", "`frobnicate.b32` is not modelled"),
        ("add.rz.f64 %rd1, %rd2, %rd3;", "rounding"),
        ("call.uni (%r1), f, (%r2);", "the function `f` has no body"),
        ("bar.red.popc.u32 %r1, 0, %p1;", "a barrier that is not modelled"),
        ("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%f1}, {%r1}, {%r2}, {%f1};", "not modelled"),
        ("bra nowhere;", "a branch to nowhere"),
        ("mov.u32 %r1, %smid;", "%smid"),
        ("mov.u32 %r1, %r99;", "%r99"),
        ("mov.u32 %r1, missing;", "`missing` is not declared"),
        ("ld.global.v4.f64 {%rd1, %rd2, %rd3, %rd4}, [%rd5];", "width"),
        ("ld.global.v2.f32 {%f1}, [%rd5];", "1 registers for 2 elements"),
        ("cvt.f32.f16x2 %f1, %r1;", "conversion that is not modelled"),
        ("shfl.bfly.b32 %r1, %r2, 1, 31;", "`.sync` expected"),
        ("atom.global.add.f16 %h1, [%rd1], %h2;", "not modelled"),
        ("cp.async.bulk.commit_group;", "`.bulk` is not modelled"),
        ("@%p1 call.uni f;", "`call.uni` is not modelled"),
    ] {
        let error = Module::parse(&kernel(body)).expect_err(body);
        assert_eq!(error.line, 11, "{error}");
        assert!(error.to_string().contains(part), "{body}: {error}");
    }
}

#[test]
fn small_programs_compute_what_they_say() {
    for (body, expected) in [
        // Carries over 64 bits: 0xffffffff + 1, and -1 - 1 with a borrow.
        ("add.cc.u32 %r1, 0xffffffff, 1; addc.u32 %r2, 5, 0;", 6u32),
        ("sub.cc.u32 %r1, 0, 1; subc.u32 %r2, 5, 0;", 4),
        ("mad.lo.cc.u32 %r1, 0x10000, 0x10000, 7; madc.hi.u32 %r2, 0x10000, 0x10000, 1;", 2),
        ("mov.b32 %r3, {1, 2}; mov.b32 {%h1, %h2}, %r3; cvt.u32.u16 %r2, %h2;", 2),
        ("setp.lt.and.s32 %p1, -1, 0, 1; selp.u32 %r2, 10, 20, %p1;", 10),
        ("setp.eq.u32 %p1, 1, 2; @!%p1 bra L; mov.u32 %r2, 1; bra M; L: mov.u32 %r2, 9; M:", 9),
        ("{ .reg .b32 t; mov.u32 t, 3; { .reg .b32 t; mov.u32 t, 4; } mov.u32 %r2, t; }", 3),
        ("fma.rm.f32 %f1, 0f3F800001, 0f3F800001, 0f00000000; mov.b32 %r2, %f1;", 0x3f80_0002),
        ("fma.rp.f32 %f1, 0f3F800001, 0f3F800001, 0f00000000; mov.b32 %r2, %f1;", 0x3f80_0003),
        ("add.ftz.f32 %f1, 0f00000001, 0f00000000; mov.b32 %r2, %f1;", 0),
        ("add.sat.f32 %f1, 0f40000000, 0f3F800000; mov.b32 %r2, %f1;", 0x3f80_0000),
        ("mov.b16 %h1, 0x3c00; add.f16 %h2, %h1, %h1; cvt.u32.u16 %r2, %h2;", 0x4000),
        ("fma.rn.f16x2 %r2, 0x3c004000, 0x40004000, 0x3c003c00;", 0x4200_4500),
        ("lop3.b32 %r2, 12, 10, 6, 0x96;", 0),
        ("prmt.b32 %r2, 0x33221100, 0, 0x0123;", 0x0011_2233),
        ("shf.l.wrap.b32 %r2, 0x80000000, 1, 33;", 3),
        ("redux.sync.add.s32 %r2, 3, 1;", 3),
        ("vote.sync.all.pred %p1, 1, 1; selp.u32 %r2, 1, 0, %p1;", 1),
        ("isspacep.global %p1, %rd1; selp.u32 %r2, 1, 0, %p1;", 1),
        ("bfe.s32 %r2, 0xf0, 4, 4;", 0xffff_ffff),
    ] {
        let text = kernel(&format!("ld.param.u64 %rd1, [out]; {body} st.global.u32 [%rd1], %r2;"));
        let module = Module::parse(&text).unwrap_or_else(|error| panic!("{body}: {error}"));
        let mut memory = memory();
        let out = empty::<u32>(&mut memory, 1);
        run(&module, "k", &mut memory, &GridLaunch::new([1, 1, 1], [1, 1, 1]).u64(out));
        assert_eq!(download::<u32>(&memory, out, 1), [expected], "{body}");
    }
}

#[test]
fn functions_are_called_with_parameters_of_their_own() {
    let function = ".func (.param .b32 result) twice(.param .b32 value)
{
.reg .b32 %r<9>; .reg .pred %p<9>;
ld.param.u32 %r1, [value];
setp.gt.u32 %p1, %r1, 100;
@%p1 bra LARGE;
add.u32 %r2, %r1, %r1;
st.param.b32 [result+0], %r2;
ret;
LARGE:
st.param.b32 [result+0], 7;
ret;
}
";
    let call = |value: &str, into: &str| {
        format!(
            "{{ .param .b32 param0; st.param.b32 [param0+0], {value}; .param .b32 retval0;\n\
             call.uni (retval0), twice, (param0); ld.param.b32 {into}, [retval0+0]; }}"
        )
    };
    let body = format!(
        "ld.param.u64 %rd1, [out]; {} {} {} add.u32 %r4, %r4, %r5; st.global.u32 [%rd1], %r4;",
        call("5", "%r3"),
        call("%r3", "%r4"),
        call("500", "%r5")
    );
    let module = Module::parse(&(kernel(&body) + function)).unwrap_or_else(|error| panic!("{error}"));
    let mut memory = memory();
    let out = empty::<u32>(&mut memory, 1);
    run(&module, "k", &mut memory, &GridLaunch::new([1, 1, 1], [1, 1, 1]).u64(out));
    assert_eq!(download::<u32>(&memory, out, 1), [27]);
    let endless = function.replace("ld.param.u32 %r1, [value];", "call (result), twice, (value);");
    let error = Module::parse(&(kernel(&body) + &endless)).unwrap_err();
    assert!(error.message.contains("without end"), "{error}");
}

#[test]
fn variables_of_the_module_can_be_read_and_not_written() {
    let variables = ".const .align 4 .b8 table[8] = {1, 0, 0, 0, 42, 0, 0, 0};\n.global .align 4 .f32 half = 0f3F000000;\n.visible .entry";
    let text = kernel("ld.const.u32 %r1, [table+4]; ld.param.u64 %rd1, [out]; st.global.u32 [%rd1], %r1;");
    let module = Module::parse(&text.replace(".visible .entry", variables)).unwrap();
    let mut memory = memory();
    let out = empty::<u32>(&mut memory, 1);
    run(&module, "k", &mut memory, &GridLaunch::new([1, 1, 1], [1, 1, 1]).u64(out));
    assert_eq!(download::<u32>(&memory, out, 1), [42]);
    let text = kernel("mov.u64 %rd1, half; st.global.u32 [%rd1], 1;");
    let module = Module::parse(&text.replace(".visible .entry", variables)).unwrap();
    let found = fault(&module, "k", &mut memory, &GridLaunch::new([1, 1, 1], [1, 1, 1]).u64(0));
    assert_eq!(found.kind, FaultKind::ReadOnly);
}

/// Files cut short and with some bytes changed: an error or a module, and launches that end.
fn damaged(files: &[&str], each: usize) {
    for file in files {
        let path = format!("{}/tests/data/{file}.ptx", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).unwrap();
        for end in (0..text.len()).step_by(text.len() / 100) {
            let _ = Module::parse(&text[..end]);
        }
        let mut state = 1u64;
        let mut next = |most: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % most
        };
        for _ in 0..each {
            let mut damaged = text.clone().into_bytes();
            for _ in 0..=next(3) {
                let at = next(damaged.len());
                damaged[at] = b"0123456789abcdef%;,.{}[]()+-@!:r"[next(32)];
            }
            let Ok(module) = Module::parse(&String::from_utf8_lossy(&damaged)) else { continue };
            for kernel in module.kernels() {
                let mut memory = memory();
                let all = upload(&mut memory, &[1f32; 400]);
                let mut launch = GridLaunch::new([1, 1, 1], [16, 4, 1]);
                launch.parameters =
                    all.to_le_bytes().into_iter().cycle().take(kernel.parameter_bytes()).collect();
                launch.limits.instructions = 3_000;
                launch.dynamic_shared = 64;
                let _ = kernel.launch(&mut memory, &launch);
            }
        }
    }
}

#[test]
fn damaged_text_never_panics() {
    damaged(&["tiled", "bugs"], 100);
}

/// By hand: `cargo test -p trimtab-ptx --test language -- --ignored`.
#[test]
#[ignore = "takes half a minute; a part of it runs always"]
fn much_damaged_text_never_panics() {
    damaged(&["tiled", "bugs", "matmul", "copies", "tensor", "ldmatrix", "transpose", "others"], 4_000);
}
