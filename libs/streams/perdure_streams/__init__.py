"""Redis Streams: names, producer, consumer group, announcements."""
