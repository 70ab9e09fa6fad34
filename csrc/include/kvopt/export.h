/* Marks what a shared libkvopt shows; everything else is hidden in it. C99 and C++. */
#ifndef KVOPT_EXPORT_H
#define KVOPT_EXPORT_H

#define KVOPT_API __attribute__((visibility("default")))

#endif
