"""Archives as streams of bytes: written member by member, read by strict hand. Knows neither policy nor places."""
