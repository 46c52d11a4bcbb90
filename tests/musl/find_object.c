/*
 * find_object.c: _dl_find_object, which the libgcc of a glibc system asks for unwind tables.
 *
 * musl has no such call, and the libgcc of a musl system does not ask for it. The tests are built
 * by musl-gcc on a glibc system (make musl), so they bring it along.
 */
#include <link.h>
#include <stddef.h>
#include <stdint.h>

/* As glibc's <dlfcn.h> declares it. */
struct found {
    unsigned long long flags;
    void *start, *end;
    void *map;
    void *eh_frame;
    unsigned long long reserved[7];
};

int _dl_find_object(void *address, struct found *found);

struct search {
    uintptr_t address;
    struct found *found;
};

static int look(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct search *search = arg;
    struct found found = {0};
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + part->p_vaddr;
        if (part->p_type == PT_GNU_EH_FRAME)
            found.eh_frame = (void *)start;
        if (part->p_type == PT_LOAD && search->address >= start &&
            search->address < start + part->p_memsz) {
            found.start = (void *)start;
            found.end = (void *)(start + part->p_memsz);
        }
    }
    if (found.start == NULL || found.eh_frame == NULL)
        return 0;
    *search->found = found;
    return 1;
}

int _dl_find_object(void *address, struct found *found)
{
    struct search search = {(uintptr_t)address, found};
    return dl_iterate_phdr(look, &search) == 1 ? 0 : -1;
}
