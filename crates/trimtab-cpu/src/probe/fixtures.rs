//! Trees of `/proc` and `/sys` files of machines we do not have, made in temporary folders.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder that plays `/` and is removed at the end.
pub(super) struct Tree {
    root: PathBuf,
}

impl Tree {
    fn new() -> Tree {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("trimtab-probe-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let root = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&root).expect("a temporary folder");
        Tree { root }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn write(&self, path: &str, text: &str) {
        let path = self.root.join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, format!("{text}\n")).expect("a file");
    }

    fn cache(&self, index: u32, level: &str, kind: &str, size: &str, shared: &str) {
        let folder = format!("sys/devices/system/cpu/cpu0/cache/index{index}");
        for (file, text) in [("level", level), ("type", kind), ("size", size), ("shared_cpu_list", shared)] {
            self.write(&format!("{folder}/{file}"), text);
        }
        self.write(&format!("{folder}/coherency_line_size"), "64");
    }

    fn topology(&self, cpu: u32, package: u32, core: u32) {
        let folder = format!("sys/devices/system/cpu/cpu{cpu}/topology");
        self.write(&format!("{folder}/physical_package_id"), &package.to_string());
        self.write(&format!("{folder}/core_id"), &core.to_string());
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        // A leftover in the temporary folder is not worth failing a test.
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

/// Two cores with two threads each, everything readable.
pub(super) fn intel_desktop() -> Tree {
    let tree = Tree::new();
    let block = |cpu: u32| {
        format!(
            "processor\t: {cpu}\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 158\n\
             model name\t: Intel(R) Core(TM) i5-9600K  CPU @ 3.70GHz\nstepping\t: 12\nmicrocode\t: 0xb4\n\
             cpu MHz\t\t: 3700.000\nphysical id\t: 0\ncore id\t\t: {}\nflags\t\t: fpu sse2 avx avx2 fma\n",
            cpu % 2
        )
    };
    tree.write("proc/cpuinfo", &(0..4).map(block).collect::<Vec<_>>().join("\n"));
    tree.write("proc/meminfo", "MemTotal:       16303428 kB\nMemFree: 1000 kB\nMemAvailable:    8000000 kB");
    tree.write("proc/loadavg", "1.25 0.80 0.50 2/900 12345");
    tree.write("proc/stat", "cpu  1000 0 500 8000 10 0 5 0 0 0\ncpu0 250 0 125 2000 2 0 1 0 0 0");
    tree.write(
        "proc/pressure/cpu",
        "some avg10=2.50 avg60=1.00 avg300=0.50 total=1\nfull avg10=0.00 avg60=0.00",
    );
    tree.write("proc/sys/kernel/osrelease", "6.8.0-45-generic");
    tree.cache(0, "1", "Data", "32K", "0,2");
    tree.cache(1, "1", "Instruction", "32K", "0,2");
    tree.cache(2, "2", "Unified", "256K", "0,2");
    tree.cache(3, "3", "Unified", "9216K", "0-3");
    for cpu in 0..4 {
        tree.topology(cpu, 0, cpu % 2);
        let folder = format!("sys/devices/system/cpu/cpu{cpu}");
        tree.write(&format!("{folder}/cpufreq/scaling_cur_freq"), &(3_800_000 + 100_000 * cpu).to_string());
        tree.write(&format!("{folder}/cpufreq/scaling_max_freq"), "4600000");
        tree.write(
            &format!("{folder}/thermal_throttle/core_throttle_count"),
            if cpu == 0 { "7" } else { "0" },
        );
    }
    tree.write("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave");
    tree.write("sys/devices/system/node/node0/cpulist", "0-3");
    tree.write("sys/devices/system/node/online", "0");
    tree.write("sys/class/thermal/thermal_zone0/temp", "27800");
    tree.write("sys/class/thermal/thermal_zone1/temp", "-274000");
    tree.write("sys/class/hwmon/hwmon2/temp1_input", "61000");
    tree.write("sys/class/hwmon/hwmon2/temp1_crit", "100000");
    tree.write("sys/class/hwmon/hwmon2/fan1_input", "1200");
    tree.write("sys/class/powercap/intel-rapl:0/name", "package-0");
    tree.write("sys/class/powercap/intel-rapl:0/energy_uj", "123456789");
    tree.write("sys/class/powercap/intel-rapl:0:0/name", "core");
    tree.write("sys/class/powercap/intel-rapl:0:0/energy_uj", "111");
    tree
}

/// A guest with two processors on two nodes, in a control group of 2 GiB.
pub(super) fn amd_server() -> Tree {
    let tree = Tree::new();
    let block = |cpu: u32| {
        format!(
            "processor\t: {cpu}\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD EPYC\n\
             stepping\t: 1\nmicrocode\t: 0x1000065\ncpu MHz\t\t: 2596.134\nphysical id\t: 0\ncore id\t\t: {cpu}\n\
             flags\t\t: fpu sse2 avx hypervisor avx2\n"
        )
    };
    tree.write("proc/cpuinfo", &format!("{}\n{}", block(0), block(1)));
    tree.write("proc/meminfo", "MemTotal: 16000000 kB\nMemAvailable: 12000000 kB");
    tree.write("proc/stat", "cpu  400 0 100 400 0 25 25 50 0 0");
    tree.write("proc/self/cgroup", "0::/app.slice/job");
    tree.write("sys/fs/cgroup/app.slice/job/memory.max", "2147483648");
    tree.write("sys/fs/cgroup/app.slice/job/memory.current", "536870912");
    tree.cache(0, "1", "Data", "32K", "0");
    tree.cache(2, "2", "Unified", "1024K", "0");
    tree.cache(3, "3", "Unified", "32M", "0-1");
    tree.write("sys/devices/system/node/node0/cpulist", "0");
    tree.write("sys/devices/system/node/node1/cpulist", "1");
    tree.write("sys/class/dmi/id/sys_vendor", "Amazon EC2");
    tree
}

/// Two kinds of cores, unplugged, with a mouse that has a battery of its own.
pub(super) fn laptop() -> Tree {
    let tree = Tree::new();
    tree.write("proc/cpuinfo", "processor\t: 0\nmodel name\t: Some Laptop CPU");
    tree.write("sys/devices/cpu_core/cpus", "0-3");
    tree.write("sys/devices/cpu_atom/cpus", "4-7");
    tree.write("sys/class/power_supply/AC/type", "Mains");
    tree.write("sys/class/power_supply/AC/online", "0");
    tree.write("sys/class/power_supply/BAT0/type", "Battery");
    tree.write("sys/class/power_supply/BAT0/status", "Discharging");
    tree.write("sys/class/power_supply/BAT0/capacity", "43");
    tree.write("sys/class/power_supply/hid-mouse/type", "Battery");
    tree.write("sys/class/power_supply/hid-mouse/scope", "Device");
    tree.write("sys/class/power_supply/hid-mouse/capacity", "99");
    tree.write("sys/firmware/acpi/platform_profile", "low-power");
    tree.write("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave");
    tree
}

/// A machine that tells nothing.
pub(super) fn silent() -> Tree {
    Tree::new()
}

/// Every file is there and none makes sense.
pub(super) fn garbage() -> Tree {
    let tree = Tree::new();
    for file in ["cpuinfo", "meminfo", "loadavg", "stat", "pressure/cpu", "self/cgroup"] {
        tree.write(&format!("proc/{file}"), "cpu ???\nsome avg10=hot\n\u{fffd}\u{0}: : -1");
    }
    tree.cache(0, "one", "Data", "32K", "0");
    tree.cache(1, "1", "Data", "manyK", "0");
    tree.cache(2, "2", "Unified", "99999999999999999999G", "0");
    let cpu = "sys/devices/system/cpu/cpu0";
    for file in [
        "topology/core_id",
        "topology/physical_package_id",
        "cpufreq/scaling_cur_freq",
        "cpufreq/scaling_max_freq",
        "cpufreq/scaling_governor",
        "thermal_throttle/core_throttle_count",
    ] {
        tree.write(&format!("{cpu}/{file}"), "not a number");
    }
    tree.write("sys/class/thermal/thermal_zone0/temp", "warm");
    tree.write("sys/class/thermal/thermal_zone1/temp", "9999999999");
    tree.write("sys/class/power_supply/BAT0/type", "Battery");
    tree.write("sys/class/power_supply/BAT0/status", "???");
    tree.write("sys/class/power_supply/BAT0/capacity", "4000");
    tree.write("sys/class/power_supply/AC/type", "Mains");
    tree.write("sys/class/power_supply/AC/online", "maybe");
    tree.write("sys/class/powercap/intel-rapl:0/name", "package-0");
    tree.write("sys/class/powercap/intel-rapl:0/energy_uj", "lots");
    tree
}
